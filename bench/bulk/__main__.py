"""The bulk job beside the PostGIS procedure: ``python -m bench.bulk`` (make bench-bulk).

What counts is ``spark-submit`` as people run it: a process of its own, timed from its start to
its end, Java and all, against PostGIS on a warm server, one subscription after the other, and in
turns with the engine of commit 1a227ed. The same in an application that is already up is measured
too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from bench.bulk.redis_push import measure
from bench.bulk.report import BulkReport, JobRun, PeerSample, PushFigures
from bench.bulk.submits import TREE, earlier_tree, submit
from bench.process_tree import run_watched
from schemas.language.descriptor_json import parse_descriptor
from spatial_udfs.entity_table import EntityTable
from testing.mixed_subscriptions import mixed_descriptors, write_subscriptions
from testing.postgis_peer import postgis_peer
from testing.postgis_server import PostgisMissingError
from world.snapshot import load_snapshot

OUT: Final = Path("out")
SEED: Final = 7
# Enough that starting up is lost in it; the large run has more rows than a bench should push.
MOST_PUSHED: Final = 5_000_000
PUSHED_ENTITIES: Final = 100_000
PUSH_ROUNDS: Final = 5
OTHER_SEED: Final = 8
# How often each command is run; its median counts.
SUBMITS: Final = 3


def main() -> int:
    """Run the benchmark; 0 when every aim is reached, 1 when not, 2 when it cannot run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--entities", type=int, default=225_150)
    parser.add_argument("--few", type=int, default=10_000, help="subscriptions of the first runs")
    parser.add_argument("--many", type=int, default=100_000, help="of the large runs")
    parser.add_argument("--most", type=int, default=1_000_000, help="of the largest runs")
    parser.add_argument("--sample", type=int, default=200, help="resolved by PostGIS")
    options = parser.parse_args()
    try:
        counts = (options.few, options.many, options.most)
        report = run(options.entities, counts, options.sample)
    except PostgisMissingError as error:
        print(error, file=sys.stderr)
        return 2
    report.write(OUT)
    print(report.markdown())
    print(f"written to {OUT / 'bulk.json'}, {OUT / 'bulk.md'} and {OUT / 'bulk.png'}")
    return 0 if report.reached() else 1


def run(entities: int, counts: tuple[int, int, int], sample: int) -> BulkReport:
    """Measure everything, in a folder that is gone afterwards."""
    few, many, most = counts
    earlier = earlier_tree()
    load_average = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="spaps-bulk-") as name:
        bench = _Bench(Path(name))
        print(f"drawing a city of {entities:,} entities", flush=True)
        drawing = [sys.executable, "-m", "bench.live.world", str(bench.world), str(entities)]
        subprocess.run(drawing, check=True)
        table = load_snapshot(str(bench.world))
        for count in counts:
            write_subscriptions(bench.file_of(count), table, count, SEED)
        peer = _peer_sample(table, few, sample)
        submitted, before = bench.resolve_by_submits(earlier, counts)
        warm = bench.resolve_in_session(table, few, many)
        push = _push_figures(submitted["large"].rows)
    return BulkReport(
        command=f"python -m bench.bulk --entities {entities} --few {few} --many {many} "
        f"--most {most} --sample {sample}",
        entities=entities,
        load_average=load_average,
        peer=peer,
        submitted=submitted,
        earlier=before,
        warm=warm,
        push=push,
    )


@dataclass(frozen=True)
class _Bench:
    folder: Path

    @property
    def world(self) -> Path:
        return self.folder / "world"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def file_of(self, count: int) -> Path:
        return self.folder / f"subscriptions-{count}.jsonl"

    def resolve_by_submits(
        self, earlier: Path, counts: tuple[int, int, int]
    ) -> tuple[dict[str, JobRun], dict[str, JobRun]]:
        """First and repeated runs, and large ones, of both engines in turns."""
        few, many, most = counts
        own: dict[str, list[JobRun]] = {}
        before: dict[str, list[JobRun]] = {}
        for _ in range(SUBMITS):
            for title, count in (
                ("first", few),
                ("again", few),
                ("large", many),
                ("largest", most),
            ):
                is_first = title != "again"
                if is_first:
                    run = self._resolve(earlier, title, count, is_first=True)
                    before.setdefault(title, []).append(run)
                    # Its world is left as an import leaves it by the run that follows.
                run = self._resolve(TREE, title, count, is_first=is_first)
                own.setdefault(title, []).append(run)
        joined = (
            {title: JobRun.joined(runs) for title, runs in each.items()} for each in (own, before)
        )
        this, other = joined
        return this, other

    def _resolve(self, tree: Path, title: str, count: int, *, is_first: bool) -> JobRun:
        print(f"{title}: {count:,} subscriptions, {tree.name}", flush=True)
        lines = self.file_of(count)
        run = submit(tree, title, count, lines, self.world, self.out, is_first=is_first)
        print(f"  {run.seconds:.1f} s, {run.rows:,} rows", flush=True)
        return run

    def resolve_in_session(self, table: EntityTable, few: int, many: int) -> dict[str, JobRun]:
        """The same runs in one session that has been warmed up: medians of some rounds."""
        print("the same in a session that is up: some minutes", flush=True)
        other = self.folder / "subscriptions-other.jsonl"
        write_subscriptions(other, table, few, OTHER_SEED)
        command = [
            _spark_submit(), "bench/bulk/session.py", "--world", str(self.world),
            "--few", str(self.file_of(few)), "--other", str(other),
            "--many", str(self.file_of(many)), "--out", str(self.out),
        ]  # fmt: skip
        finished = run_watched(command, OUT / "bulk-session.log")
        lines = [line for line in finished.output.splitlines() if line.startswith("{")]
        by_title: dict[str, list[dict[str, float]]] = {}
        for run in map(json.loads, lines):
            by_title.setdefault(run["title"], []).append(run)
        del by_title["warming up"]
        peak = finished.peak_megabytes
        return {
            title: JobRun.of_rounds(title, many if title == "large" else few, runs, peak)
            for title, runs in by_title.items()
        }


def _push_figures(rows: int) -> PushFigures:
    """The push on Spark and the plain pipeline in turns, with as many pairs as are typical."""
    pairs = min(rows, MOST_PUSHED)
    print(f"push: {pairs:,} pairs", flush=True)
    compared = measure(pairs, PUSHED_ENTITIES, PUSH_ROUNDS, with_spark=True)
    return PushFigures(
        pairs=compared.pairs,
        pairs_per_second=median(compared.spark),
        plain_pairs_per_second=median(compared.plain),
        bytes_per_pair=compared.bytes_per_pair or 0.0,
    )


def _peer_sample(table: EntityTable, count: int, sample: int) -> PeerSample:
    """Seconds for a sample of the very subscriptions that the first run resolves."""
    print(f"PostGIS: {sample} of {count:,} subscriptions, one by one", flush=True)
    descriptors = list(mixed_descriptors(table, count, SEED))
    # A whole number of turns through the patterns, spread over the file.
    step = count // sample // 4 * 4 + 1
    chosen = [parse_descriptor(json.dumps(each)) for each in descriptors[::step][:sample]]
    with postgis_peer(table) as peer:
        seconds: dict[bool, float] = {}
        rows = 0
        # As the original design has it, and tuned: repeated stages join the last members only.
        for frontier in (False, True):
            calls = [peer.call_of(neighborhood, frontier=frontier) for neighborhood in chosen]
            for call in calls[:20]:
                peer.rows_of(call)
            start = time.perf_counter()
            rows = sum(len(peer.rows_of(call)) for call in calls)
            seconds[frontier] = time.perf_counter() - start
        return PeerSample(peer.versions(), len(chosen), seconds[False], seconds[True], rows)


def _spark_submit() -> str:
    """The one of this environment; it looks for its Spark with the first python3 on the PATH."""
    programs = str(Path(sys.executable).parent)
    if not os.environ["PATH"].startswith(programs):
        os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return f"{programs}/spark-submit"


if __name__ == "__main__":
    raise SystemExit(main())
