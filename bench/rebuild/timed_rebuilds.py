"""Runs `spaps rebuild` as people do, and reads what it took and what it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.dataset as ds
from deltalake import DeltaTable

from bench.rebuild.report import TimedRebuild
from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import current_generation
from redis_link.sets.pair_arrays import Tally, tally_of
from schemas.membership import PEID, STAGE_NO, SUB_ID, VERSION
from spatial_udfs.entity_table import EntityTable
from testing.world_writers import write_geoparquet
from world.memberships.membership_table import memberships_path

# More than any neighborhood of the benchmark has.
STAGES: Final = 64
ONE_COMMAND: Final = "from spaps.cli.command_line import main; main()"


@dataclass(frozen=True)
class RebuildBench:
    """One Redis, one world and one folder of results, rebuilt by one command after the other."""

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
