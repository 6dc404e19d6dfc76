"""References by key, by name and by place in bulk: as the exact resolver has them, and reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely
from deltalake import DeltaTable
from pyproj import Transformer

from jobs.pipeline.subscriptions import graph_slices
from schemas.errors import DescriptorError, NoReferenceError
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import read_neighborhood
from schemas.membership import SUB_ID
from spatial_udfs.bulk import buckets
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver, resolve_named
from testing.synthetic_city import synthetic_city
from tests.scenes.bulk_scene import Row, bulk_rows, run_bulk, write_lines, write_world
from world.lake.bulk_tables import KIND, PROBLEMS_TABLE, REASON

pytestmark = pytest.mark.spark

OFF_THE_MAP = "POINT(99 0)"
CROSSED = "POLYGON((0 0,1 1,1 0,0 1,0 0))"
CONDITIONS = ("DW300", "CV", "C AND B", "I", "T", "NOT DW2000", "D", "DW900 AND NOT I",
              "Relate(T*****FF*)")  # fmt: skip


@pytest.fixture
def several_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small worlds have several buckets, and small batches several slices."""
    monkeypatch.setattr(buckets, "ENTITIES_PER_BUCKET", 700)
    monkeypatch.setattr(graph_slices, "MOST_TEXTS_IN_SLICE", 30)


def city() -> EntityTable:
    """Entities with keys, and two of them with the same name."""
    table = synthetic_city(2_000, seed=7)
    names = table.names.copy()
    names[5] = names[4] = "twin"
    keys = pa.array([f"city/{place}" for place in range(len(table))])
    return replace(table, names=names, keys=keys)


def places_of(table: EntityTable) -> list[str]:
    """A point, a line and two areas of the city, as places."""
    to_degrees = Transformer.from_crs(table.srid, "OGC:CRS84", always_xy=True)
    corners = shapely.total_bounds(table.geometries)
    middle = shapely.Point((corners[0] + corners[2]) / 2, (corners[1] + corners[3]) / 2)
    zone = max(table.geometries, key=shapely.area)
    drawn = [
        middle,
        shapely.LineString([middle, corners[2:]]),
        shapely.box(*middle.buffer(800).bounds),
        shapely.convex_hull(zone),
    ]
    return [
        shapely.to_wkt(shapely.transform(one, to_degrees.transform, interleaved=False), 12)
        for one in drawn
    ]


def expected_rows(table: EntityTable, wanted: list[Neighborhood]) -> list[Row]:
    resolver = ExactResolver(table)
    rows: list[Row] = []
    for number, neighborhood in enumerate(wanted, start=1):
        try:
            found = resolve_named(resolver, table, neighborhood).resolution.rows()
        except (NoReferenceError, DescriptorError):
            continue
        rows += ((number, peid, stage) for peid, stage in zip(*map(list, found), strict=True))
    return sorted((int(sub_id), int(peid), int(stage)) for sub_id, peid, stage in rows)


@pytest.mark.usefixtures("several_cells")
def test_bulk_equals_exact_with_references_of_every_kind(spark: Any, tmp_path: Path) -> None:
    table = city()
    point, line, square, zone = places_of(table)
    name = str(table.names[100])
    references = [
        f"at:{point}", f"at:{line}", f"at:{square}", f"at:{zone}", f"at:{point},at:{square}",
        f"key:city/0,at:{zone}", f'key:city/900,name:"{name}"', f"{table.peids[0]},at:{square}",
    ]  # fmt: skip
    texts = [f"({{{refs}}},{{#}},{each})" for refs in references for each in CONDITIONS]
    texts += [
        f"({{at:{point}}},{{{cats}}},{each}) • 2(Prev,{{road/#}},T)"
        for cats in ("road/#", "zone/#,shop/#")
        for each in CONDITIONS[:4]
    ]
    right = len(texts)
    texts += [
        "({key:city/x},{#},I)",
        "({key:city/x,key:city/3},{#},DW50)",
        f"({{name:twin,{table.peids[0]},at:{point}}},{{#}},DW50)",
        f"({{at:{OFF_THE_MAP}}},{{#}},DW50)",
        f"({{at:{OFF_THE_MAP},at:{point},3,name:nobody}},{{#}},DW300)",
        f"({{at:{CROSSED}}},{{#}},DW50)",
        f"({{at:{point},{table.peids[1]}}},{{road/#}},DW300 AND NOT T) • (Anc,{{#}},I)",
    ]
    wanted = [read_neighborhood(text) for text in texts]
    world = write_world(tmp_path / "world", table)
    lines = write_lines(tmp_path / "s.jsonl", wanted)
    for out in ("first", "known"):  # the second run knows the sets of the first
        run_bulk(spark, world, lines, tmp_path / out)
        found = bulk_rows(tmp_path / out)
        expected = expected_rows(table, wanted)
        assert set(found) - set(expected) == set()
        assert set(expected) - set(found) == set()
        assert found == expected, "a row stands twice"
    assert len({row[0] for row in found}) > right / 2
    problems = DeltaTable(str(tmp_path / "first" / PROBLEMS_TABLE)).to_pyarrow_table().to_pylist()
    said = {
        row[SUB_ID] - right: (row[KIND], row[REASON]) for row in problems if row[SUB_ID] > right
    }
    assert said[1] == ("no reference", "no reference exists in world version 1: key:city/x")
    assert said[2] == ("missing reference", "not in world version 1: key:city/x")
    kind, reason = said[3]
    assert (kind, reason.partition(": ")[2].partition(": ")[0]) == (
        "wrong descriptor", '2 entities have the name "twin"',
    )  # fmt: skip
    assert said[4] == ("no reference", f"no reference exists in world version 1: {OFF_THE_MAP}")
    assert said[5] == (
        "missing reference", f'not in world version 1: 3, name:"nobody", {OFF_THE_MAP}',
    )  # fmt: skip
    kind, reason = said[6]
    assert (kind, reason.partition(": Self")[0]) == (
        "wrong descriptor", f"stage 1: the place {CROSSED} is broken",
    )  # fmt: skip
    assert 7 not in said
