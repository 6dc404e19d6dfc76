"""Rebuilds after a change of one per cent, beside full ones: ``python -m bench.rebuild``.

Each rebuild is run as people run it: ``spaps rebuild`` as a process of its own, timed from its
start to its end, import and all, on a Redis with 100,000 registered subscriptions. Every one
imports a source that it has not seen, in which one per cent of the entities is different.
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
from typing import Any, Final

import pyarrow.dataset as ds
from deltalake import DeltaTable

from bench.rebuild.registration import register
from bench.rebuild.report import RebuildBenchReport, TimedRebuild
from redis_link.connection.client import RedisClient, connect
from redis_link.connection.embedded import EmbeddedRedis
from redis_link.generation.generation_store import current_generation
from redis_link.sets.pair_arrays import Tally, tally_of
from schemas.membership import PEID, STAGE_NO, SUB_ID, VERSION
from spatial_udfs.entity_table import EntityTable
from testing.city_edits import edited_city
from testing.synthetic_city import synthetic_city
from testing.world_writers import write_geoparquet
from world.memberships.membership_table import memberships_path

OUT: Final = Path("out")
PAGE: Final = Path("docs/figures/rebuild.md")
# More than any neighborhood of the benchmark has.
STAGES: Final = 64
ONE_COMMAND: Final = "from spaps.cli.command_line import main; main()"


def main() -> int:
    """Measure, write the report; 0 when the aim is reached, 1 when not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--entities", type=int, default=225_150)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--share", type=float, default=0.01, help="of the entities that change")
    parser.add_argument("--rounds", type=int, default=3, help="incremental rebuilds")
    parser.add_argument("--no-spark", action="store_true", help="leave the full one on Spark out")
    options = parser.parse_args()
    report = run(options)
    OUT.mkdir(exist_ok=True)
    (OUT / "rebuild.json").write_text(report.as_json(), "utf-8")
    PAGE.write_text(report.markdown(), "utf-8")
    print(report.markdown())
    print(f"written to {OUT / 'rebuild.json'} and {PAGE}")
    return 0 if report.reached() else 1


def run(options: argparse.Namespace) -> RebuildBenchReport:
    """Measure everything in a folder that is gone afterwards."""
    load = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="spaps-rebuild-") as name,
        EmbeddedRedis(Path(name) / "redis") as server,
    ):
        bench = _Bench(Path(name), server.url, connect(server.url))
        table = synthetic_city(options.entities)
        register(bench.client, table, options.subscriptions)
        runs = [bench.rebuild("first", table)]
        for _ in range(options.rounds):
            table = edited_city(table, options.share, seed=len(runs))
            runs.append(bench.rebuild("incremental", table))
        incremental = bench.content()
        runs.append(bench.rebuild("same version, in full", None, "--full", "--engine", "exact"))
        same = incremental == bench.content()
        engines = ["exact"] if options.no_spark else ["exact", "spark"]
        for engine in engines:
            table = edited_city(table, options.share, seed=len(runs))
            arguments = ("--full", "--engine", engine)
            runs.append(bench.rebuild(f"full, {engine}", table, *arguments))
    return RebuildBenchReport(
        entities=options.entities, subscriptions=options.subscriptions, share=options.share,
        load_average=load, same_content=same, runs=tuple(runs),
    )  # fmt: skip


@dataclass(frozen=True)
class _Bench:
    folder: Path
    url: str
    client: RedisClient

    def rebuild(self, title: str, table: EntityTable | None, *arguments: str) -> TimedRebuild:
        """Write the source, if there is a new one, and rebuild from it."""
        source = self.folder / "city.parquet"
        if table is not None:
            write_geoparquet(table, source)
        print(title, flush=True)
        environment = os.environ | {
            "SPAPS_REBUILD_OUT": str(self.folder / "lake"),
            "SPAPS_REBUILD_RECORDS": str(self.folder / "lake" / "rebuilds"),
        }
        command = [
            sys.executable, "-c", ONE_COMMAND, "rebuild", str(source), "--redis", self.url,
            "--world", str(self.folder / "lake" / "world"), "--grace", "0", *arguments,
        ]  # fmt: skip
        started = time.perf_counter()
        subprocess.run(command, check=True, env=environment)
        seconds = time.perf_counter() - started
        record = self._last_record()
        print(f"  {seconds:.1f} s", flush=True)
        return TimedRebuild(title, seconds, record["version"], record["steps"])

    def content(self) -> tuple[int, str, Tally]:
        """Count and checksum of the pairs in force, and the same of the rows in Delta."""
        facts = current_generation(self.client)
        assert facts is not None
        table = DeltaTable(memberships_path(str(self.folder / "lake")))
        rows = Tally()
        for batch in table.to_pyarrow_dataset().to_batches(
            columns=[SUB_ID, PEID, STAGE_NO], filter=ds.field(VERSION) == facts.version
        ):
            sub_ids, peids, stages = (column.to_numpy() for column in batch.columns)
            rows += tally_of(peids * STAGES + stages, sub_ids, 0)
        return facts.pairs, facts.checksum, rows

    def _last_record(self) -> dict[str, Any]:
        paths = sorted((self.folder / "lake" / "rebuilds").glob("*/record.json"))
        record: dict[str, Any] = json.loads(paths[-1].read_text("utf-8"))
        return record


if __name__ == "__main__":
    raise SystemExit(main())
