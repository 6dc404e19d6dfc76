"""Running the bulk job in a test, and what the exact resolver says to the same subscriptions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from jobs.pipeline.bulk_run import resolve_batch
from jobs.pipeline.memberships.run_facts import RunFacts
from jobs.pipeline.subscriptions.snapshot import open_subscriptions
from schemas.entity import RESOLVED_SETS_TABLE
from schemas.errors import NoReferenceError
from schemas.language.neighborhood import Neighborhood
from schemas.membership import MEMBERSHIPS_TABLE
from schemas.subscription import parse_subscription
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver
from testing.world_writers import entity_rows
from world.versions.store import WorldStore

Row = tuple[int, int, int]


def write_world(folder: Path, table: EntityTable) -> str:
    """The table as one more version of the world in the folder."""
    WorldStore(str(folder)).write_version(entity_rows(table), srid=table.srid)
    return str(folder)


def write_lines(path: Path, neighborhoods: Iterable[Neighborhood]) -> Path:
    """A subscription file, subIds from 1."""
    lines = [
        json.dumps({"subId": number, "descriptor": neighborhood.to_object()})
        for number, neighborhood in enumerate(neighborhoods, start=1)
    ]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def run_bulk(
    spark: Any, world: str, lines: Path, out: Path, version: int | None = None
) -> RunFacts:
    """The job as spark-submit runs it, in the session of the tests."""
    frames = open_subscriptions(spark, str(lines))
    return resolve_batch(spark, world, version, frames, str(lines), str(out), lambda _: None)


def forget_sets(world: str) -> None:
    """Let the next run resolve everything, with the related pairs that are there."""
    shutil.rmtree(f"{world}/{RESOLVED_SETS_TABLE}")


def bulk_rows(out: Path, version: int = 1) -> list[Row]:
    """All rows of a version, sorted; a row that stands twice would show."""
    table = DeltaTable(str(out / MEMBERSHIPS_TABLE)).to_pyarrow_table(
        filters=[("version", "=", version)]
    )
    columns = [table.column(name).to_pylist() for name in ("subId", "peid", "stageNo")]
    return sorted(zip(*columns, strict=True))


def exact_rows_of(subscriptions: Path, table: EntityTable) -> list[Row]:
    """What the exact resolver says to a subscription file, under its own subIds."""
    lines = subscriptions.read_text("utf-8").splitlines()
    wanted = [parse_subscription(line) for line in lines]
    rows = exact_rows(table, [each.neighborhood for each in wanted])
    return sorted((wanted[number - 1].sub_id, peid, stage) for number, peid, stage in rows)


def exact_rows(table: EntityTable, neighborhoods: Sequence[Neighborhood]) -> list[Row]:
    """The same by the exact resolver; those without a reference give nothing."""
    resolver = ExactResolver(table)
    rows: list[Row] = []
    for number, neighborhood in enumerate(neighborhoods, start=1):
        try:
            peids, stages = resolver.resolve(neighborhood).rows()
        except NoReferenceError:
            continue
        found = zip(peids.tolist(), stages.tolist(), strict=True)
        rows.extend((number, peid, stage) for peid, stage in found)
    return sorted(rows)
