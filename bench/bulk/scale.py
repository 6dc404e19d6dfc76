"""What a world of another size takes, out of the log of a measured run.

``python -m bench.bulk.scale``: prints the tables of docs/scale.md. The log is what
jobs/resolve_neighborhoods.py printed; the first line has the processor time of the run, as
bench.bulk.turns measures it. The steps share that time as they share the time of the run. The
assumptions stand in docs/scale.md.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jobs.pipeline.exchange import ROWS_IN_TASK
from jobs.pipeline.pairs.related_build import ROWS_OF_ENTITY, TILES_PER_TASK
from jobs.pipeline.stages.batch_state import ROWS_OF_MEMBER
from jobs.pipeline.subscriptions.graph_slices import MOST_TEXTS_IN_SLICE
from spatial_udfs.bulk.buckets import bucket_count
from spatial_udfs.bulk.world_tiles import LARGEST_SAMPLE

LOG: Final = Path(__file__).resolve().parents[2] / "docs" / "figures" / "bulk-cities.log"
# Of a push of 5 million pairs with release 0.1.0: 2.07 million a second, 5.9 bytes each.
BYTES_OF_PAIR_IN_REDIS: Final = 6.0
PUSHED_IN_A_SECOND: Final = 2.0e6
# A node of 32 GB, of which a quarter stays free. Two generations are there while one is pushed.
BYTES_OF_NODE: Final = 24e9
GENERATIONS: Final = 2
# Megabytes shuffled in the measured run (docs/figures/bulk.md, the steps).
SHUFFLED_FOR_ENTITIES: Final = 99 + 277
SHUFFLED_FOR_SUBSCRIPTIONS: Final = 14 + 11 + 37 + 40 + 55 + 24 + 26 + 3
# A file of members: what the driver holds of it, and what each worker reads of it in each level.
BYTES_ON_DRIVER: Final = 261
BYTES_READ_BY_WORKER: Final = 69
SECONDS_OF_REQUEST: Final = 0.02  # of an object store
LEVELS_WITH_FILES: Final = 5
HOUR: Final = 3_600


@dataclass(frozen=True)
class Measured:
    """What a run worked on, and the core-seconds of its steps."""

    entities: int
    pairs: int
    subscriptions: int
    descriptors: int
    members: int
    rows: int
    core_seconds: dict[str, float]


@dataclass(frozen=True)
class Projection:
    """The same of a world and a batch that are so many times as large."""

    run: Measured
    world: float
    batch: float

    def core_seconds(self) -> dict[str, float]:
        """Pairs grow with the world, and everything else with the batch."""
        return {
            step: seconds * (self.world if step == "related" else self.batch)
            for step, seconds in self.run.core_seconds.items()
        }

    @property
    def buckets(self) -> int:
        """Parts of the world."""
        return bucket_count(round(self.run.entities * self.world))

    @property
    def slices(self) -> int:
        """Parts of the batch."""
        return -(-round(self.run.descriptors * self.batch) // MOST_TEXTS_IN_SLICE)

    @property
    def files(self) -> int:
        """Files of members: one for each level of a cell."""
        return LEVELS_WITH_FILES * self.buckets * self.slices

    @property
    def tasks(self) -> dict[str, tuple[str, int]]:
        """Tasks of the largest stages, and how they are computed."""
        entities = self.run.entities * self.world
        members = self.run.members * self.batch
        tiles = min(round(entities) // 4_000, LARGEST_SAMPLE)
        million = ROWS_IN_TASK // 1_000_000
        of_entities = round(ROWS_OF_ENTITY * entities) // ROWS_IN_TASK
        of_members = round(ROWS_OF_MEMBER * members) // ROWS_IN_TASK
        return {
            "tiles": (f"{tiles:,} tiles, {TILES_PER_TASK} each", -(-tiles // TILES_PER_TASK)),
            "buckets": (f"{ROWS_OF_ENTITY} rows of an entity, {million} million each", of_entities),
            "levels": (f"{ROWS_OF_MEMBER} rows of a member, {million} million each", of_members),
        }

    @property
    def rows(self) -> float:
        """Memberships."""
        return self.run.rows * self.batch


def read_log(text: str) -> Measured:
    """Read the numbers out of the lines of a run."""

    def words(pattern: str) -> str:
        found = re.search(pattern, text, re.MULTILINE)
        if found is None:
            raise SystemExit(f"the log has no line like {pattern!r}: is it that of a whole run?")
        return found[1]

    def number(pattern: str) -> int:
        return int(words(pattern).replace(",", ""))

    spent = float(words(r"^core-seconds: ([\d.]+)$"))
    by_step = (each.split() for each in words(r"^seconds: (.+)$").split(", "))
    seconds = {name: float(value) for name, value in by_step}
    members = re.findall(r"^level \d+ of \d+: .* sets, ([\d,]+) members", text, re.MULTILINE)
    return Measured(
        entities=number(r"version \d+: ([\d,]+) entities"),
        pairs=number(r"related pairs: ([\d,]+), "),
        subscriptions=number(r"subscriptions: ([\d,]+) read"),
        descriptors=number(r"read, ([\d,]+) different descriptors"),
        members=sum(int(each.replace(",", "")) for each in members),
        rows=number(r"memberships: ([\d,]+) rows"),
        core_seconds={
            step: spent * each / sum(seconds.values()) for step, each in seconds.items() if each
        },
    )


def lines(run: Measured, found: Projection, cores: list[int]) -> Iterator[str]:
    """Yield the tables in Markdown."""
    world, batch = found.world, found.batch
    yield f"| | measured | times | {run.entities * world:,.0f} entities |"
    yield "|---|--:|--:|--:|"
    for what, count, factor in (
        ("entities", run.entities, world),
        ("related pairs", run.pairs, world),
        ("subscriptions", run.subscriptions, batch),
        ("different descriptors", run.descriptors, batch),
        ("members of sets", run.members, batch),
        ("memberships", run.rows, batch),
    ):
        yield f"| {what} | {count:,} | {factor:,.0f} | {count * factor:,.0f} |"
    steps = found.core_seconds()
    for step, seconds in steps.items():
        hours = f"{seconds:,.0f} ({seconds / HOUR:,.1f} hours)"
        factor = world if step == "related" else batch
        yield f"| {step}, core-seconds | {run.core_seconds[step]:,.1f} | {factor:,.0f} | {hours} |"
    for what, shuffled, factor in (
        ("entities and pairs", SHUFFLED_FOR_ENTITIES, world),
        ("descriptors and levels", SHUFFLED_FOR_SUBSCRIPTIONS, batch),
    ):
        gigabytes = shuffled * factor / 1e3
        yield f"| shuffled for {what} | {shuffled} MB | {factor:,.0f} | {gigabytes:,.0f} GB |"
    yield ""
    yield "| cores that share the work equally | minutes |"
    yield "|--:|--:|"
    for count in cores:
        yield f"| {count:,} | {sum(steps.values()) / count / 60:,.1f} |"
    yield ""
    yield "| what | how it is computed | |"
    yield "|---|---|--:|"
    memory = found.rows * BYTES_OF_PAIR_IN_REDIS
    nodes = -(-round(GENERATIONS * memory) // round(BYTES_OF_NODE))
    pushing = found.rows / PUSHED_IN_A_SECOND / HOUR
    cells = found.buckets * found.slices
    for what, how, figure in (
        ("buckets", "entities / 60,000", f"{found.buckets:,}"),
        ("slices", "descriptors / 200,000", f"{found.slices:,}"),
        ("cells", "buckets times slices", f"{cells:,}"),
        ("files of members", f"{LEVELS_WITH_FILES} for each cell", f"{found.files:,}"),
        ("of these on the driver", f"{BYTES_ON_DRIVER} bytes each",
         f"{found.files * BYTES_ON_DRIVER / 1e6:,.0f} MB"),
        ("read by each worker in each level", f"{BYTES_READ_BY_WORKER} bytes each",
         f"{found.files * BYTES_READ_BY_WORKER / 1e6:,.0f} MB"),
        ("writing them into an object store", f"{SECONDS_OF_REQUEST} s each",
         f"{found.files * SECONDS_OF_REQUEST / HOUR:,.1f} hours of waiting tasks"),
        *((f"tasks of {name}", how, f"{count:,}") for name, (how, count) in found.tasks.items()),
        ("Redis, one generation", f"memberships, {BYTES_OF_PAIR_IN_REDIS:.0f} bytes",
         f"{memory / 1e9:,.0f} GB"),
        ("Redis nodes of 32 GB", f"{GENERATIONS} generations, 24 GB used of each", f"{nodes}"),
        ("push into one node", "2 million a second", f"{pushing:,.1f} hours"),
        (f"push into {nodes} nodes", "each takes its share",
         f"{60 * pushing / nodes:,.0f} minutes"),
    ):  # fmt: skip
        yield f"| {what} | {how} | {figure} |"


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path, default=LOG)
    parser.add_argument("--entities", type=int, default=500_000_000)
    parser.add_argument("--subscriptions", type=int, default=100_000_000)
    parser.add_argument("--cores", type=int, nargs="+", default=[64, 256, 1024])
    options = parser.parse_args()
    run = read_log(options.log.read_text("utf-8"))
    found = Projection(
        run, options.entities / run.entities, options.subscriptions / run.subscriptions
    )
    print("\n".join(lines(run, found, options.cores)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
