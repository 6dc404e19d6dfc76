"""GeoParquet in: columns, coordinate systems, and files that only look like it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from pyproj import CRS, Transformer

from schemas.entity import peid_of_key
from schemas.errors import SettingsError, SourceError
from tests.scenes.source_files import Row, feature, write_geojson, write_geoparquet
from world.imports.world_import import import_world
from world.snapshot import load_snapshot
from world.sources.wkb import MOST_LEVELS, is_too_deep

BERLIN = shapely.Point(390_000, 5_820_000)


def row(peid: Any = 1, geometry: Any = BERLIN, categories: Any = ("a",), **more: Any) -> Row:
    return {"peid": peid, "categories": categories, "geometry": geometry, **more}


def test_a_metric_source_keeps_its_crs_and_its_coordinates(tmp_path: Path) -> None:
    z = shapely.Polygon([(0, 0, 5), (10.125, 0, 5), (10.125, 10, 5), (0, 10, 5)])
    source = write_geoparquet(tmp_path / "s.parquet", [row(2, z, name="Hall"), row(1, BERLIN)])
    report = import_world([source], tmp_path / "world")
    table = load_snapshot(str(tmp_path / "world"))
    assert report.facts.srid == table.srid == 25833
    assert table.peids.tolist() == [1, 2]
    assert table.names.tolist() == [None, "Hall"]
    assert table.geometries[0].wkb == BERLIN.wkb
    assert table.geometries[1].wkb == shapely.force_2d(z).wkb


@pytest.mark.parametrize("crs", [4326, "absent", 3857, 2263])
def test_a_source_without_metres_goes_to_the_utm_zone(tmp_path: Path, crs: int | str) -> None:
    """Degrees, Web Mercator and feet, all of them in New York."""
    code = 4326 if crs == "absent" else crs
    to_source = Transformer.from_crs(4326, code, always_xy=True)
    place = shapely.Point(to_source.transform(-74.0, 40.7))
    source = write_geoparquet(tmp_path / "s.parquet", [row(1, place)], crs=crs)
    report = import_world([source], tmp_path / "world")
    assert report.facts.srid == 32618
    expected = Transformer.from_crs(4326, 32618, always_xy=True).transform(-74.0, 40.7)
    found = load_snapshot(str(tmp_path / "world")).geometries[0]
    assert np.allclose(found.coords[0], expected, atol=0.001)


def test_sources_of_different_crs_meet_in_one(tmp_path: Path) -> None:
    longitude, latitude = Transformer.from_crs(25833, 4326, always_xy=True).transform(
        BERLIN.x, BERLIN.y
    )
    sources = [
        write_geoparquet(tmp_path / "utm.parquet", [row(1, BERLIN)]),
        write_geojson(
            tmp_path / "degrees.geojson",
            [feature(shapely.Point(longitude, latitude), peid=2, categories=["a"])],
        ),
    ]
    report = import_world(sources, tmp_path / "world")
    first, second = load_snapshot(str(tmp_path / "world")).geometries
    assert report.facts.srid == 32633
    assert first.distance(second) < 0.001
    assert [source.kind for source in report.facts.sources] == ["geoparquet", "geojson"]


def test_a_given_srid_is_used(tmp_path: Path) -> None:
    source = write_geoparquet(tmp_path / "s.parquet", [row()])
    assert import_world([source], tmp_path / "world", srid=3035).facts.srid == 3035
    expected = Transformer.from_crs(25833, 3035, always_xy=True).transform(BERLIN.x, BERLIN.y)
    found = load_snapshot(str(tmp_path / "world")).geometries[0].coords[0]
    assert np.allclose(found, expected, atol=0.001)


@pytest.mark.parametrize("srid", [4326, 3857, 2263, 4979, 0, -5, 999_999])
def test_a_given_srid_that_is_not_metric_is_refused(tmp_path: Path, srid: int) -> None:
    source = write_geoparquet(tmp_path / "s.parquet", [row()])
    with pytest.raises(SettingsError, match=f"srid {srid}"):
        import_world([source], tmp_path / "world", srid=srid)
    assert not (tmp_path / "world").exists()


def test_other_columns_and_types_are_found(tmp_path: Path) -> None:
    source = write_geoparquet(
        tmp_path / "s.parquet",
        [
            {"number": "17", "geom": BERLIN, "note": 1.5},
            {"number": " x\n", "geom": BERLIN, "note": 1.5},
            {"number": "a\tb", "geom": BERLIN, "note": 1.5},
            {"number": None, "geom": BERLIN, "note": 1.5},
        ],
        types={"number": pa.large_string(), "geom": pa.large_binary()},
        geometry_column="geom",
    )
    report = import_world([source], tmp_path / "world", id_field="number", category="pole")
    assert report.facts.problem_counts == {"malformed-key": 1, "missing-key": 1}
    assert load_snapshot(str(tmp_path / "world")).peids.tolist() == [17, peid_of_key("x")]


@pytest.mark.parametrize(
    "kind", [pa.int16(), pa.int32(), pa.uint64(), pa.decimal128(20, 0), pa.string_view()]
)
def test_any_integer_column_can_hold_the_peid(tmp_path: Path, kind: pa.DataType) -> None:
    value = "7" if pa.types.is_string_view(kind) else 7
    source = write_geoparquet(tmp_path / "s.parquet", [row(value)], types={"peid": kind})
    import_world([source], tmp_path / "world")
    assert load_snapshot(str(tmp_path / "world")).peids.tolist() == [7]


def test_categories_may_be_a_dictionary(tmp_path: Path) -> None:
    """As pandas writes columns of few different values."""
    coded = pa.list_(pa.dictionary(pa.int8(), pa.string()))
    source = write_geoparquet(tmp_path / "s.parquet", [row()], types={"categories": coded})
    import_world([source], tmp_path / "world")
    assert load_snapshot(str(tmp_path / "world")).category_names == ("a",)


def test_rows_that_cannot_be_used_are_listed(tmp_path: Path) -> None:
    point = BERLIN.wkb
    rows = [
        row(1, b"\x01\x02"),
        row(2, None),
        row(3, shapely.GeometryCollection([BERLIN])),
        row(4, shapely.Point(np.nan, np.nan)),
        row(5, shapely.LineString([(0, 0), (np.inf, 1)])),
        # A circular string, which no DE-9IM is defined for.
        row(6, bytes.fromhex("0108000000") + (3).to_bytes(4, "little") + point[5:] * 3),
        row(7, BERLIN, None),
        row(8, BERLIN, []),
        row(9, BERLIN, [None]),
        row(None, BERLIN),
        row(-1, BERLIN),
        row(11),
    ]
    source = write_geoparquet(tmp_path / "s.parquet", rows)
    report = import_world([source], tmp_path / "world")
    assert report.facts.problem_counts == {
        "broken-geometry": 1,
        "missing-geometry": 1,
        "geometry-collection": 1,
        "empty-geometry": 1,
        "non-finite-coordinates": 1,
        "unknown-geometry-type": 1,
        "missing-categories": 2,
        "malformed-category": 1,
        "missing-peid": 1,
        "peid-out-of-range": 1,
    }
    assert report.facts.entity_count == 1
    locators = {summary.kind.value: summary.example.locator for summary in report.problems}
    assert locators["broken-geometry"] == "row 1"
    assert locators["peid-out-of-range"] == "row 11"


def test_a_folder_of_files_is_one_source(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    write_geoparquet(folder / "b.parquet", [row(3), row(1)])
    write_geoparquet(folder / "a.parquet", [row(1, shapely.Point(0, 0)), row(2)])
    (folder / "_SUCCESS").touch()
    write_geoparquet(folder / ".hidden.parquet", [row(9)])
    report = import_world([folder], tmp_path / "world")
    assert load_snapshot(str(tmp_path / "world")).peids.tolist() == [1, 2, 3]
    (problem,) = report.problems
    # Rows are numbered through all files, in the order of their names.
    assert problem.example.locator == "row 4"
    assert "row 1, but other geometry" in problem.example.reason


def test_many_row_groups_are_numbered_through(tmp_path: Path) -> None:
    count = 70_000  # more than one batch
    rows = [row(n) for n in range(count)] + [row(0)]
    source = write_geoparquet(tmp_path / "s.parquet", rows, row_group_size=9_000)
    seen: list[tuple[str, int, int | None]] = []
    report = import_world([source], tmp_path / "world", progress=lambda *news: seen.append(news))
    assert report.facts.entity_count == count
    assert report.problems[0].example.locator == f"row {count + 1}"
    reading = [(done, total) for phase, done, total in seen if phase == "reading s.parquet"]
    assert reading[0] < reading[-1] == (count + 1, count + 1)


def bad_geo(**changes: Any) -> dict[str, Any]:
    column = {"encoding": "WKB", "crs": CRS.from_epsg(25833).to_json_dict()}
    return {"primary_column": "geometry", "columns": {"geometry": column}} | changes


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"geo": b""}, "has no CRS: name it with --crs"),
        ({"geo": b"{"}, "cannot be read"),
        ({"geo": b"[1]"}, "cannot be read"),
        ({"geo": bad_geo(primary_column="x")}, "cannot be read"),
        ({"geo": bad_geo(columns={"geometry": {"encoding": "point"}})}, "only WKB"),
        ({"geo": bad_geo(primary_column="g", columns={"g": {"encoding": "WKB"}})}, "is not there"),
        (
            {"geo": bad_geo(columns={"geometry": {"encoding": "WKB", "crs": {"type": "Moon"}}})},
            "CRS cannot be understood",
        ),
        ({"crs": None}, "has no CRS"),
        (
            {"types": {"categories": pa.list_(pa.int64())}},
            "must be text, whole numbers or a list of strings",
        ),
        ({"types": {"geometry": pa.string()}}, "does not hold bytes"),
    ],
)
def test_a_parquet_file_that_is_no_geoparquet_is_refused(
    tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    types = options.get("types", {})
    text = BERLIN.wkb_hex if "geometry" in types else BERLIN
    rows = [row(1, text, [1] if "categories" in types else ["a"])]
    source = write_geoparquet(tmp_path / "bad.parquet", rows, **options)
    with pytest.raises(SourceError, match=reason) as caught:
        import_world([source], tmp_path / "world")
    assert "\n" not in str(caught.value)


def test_missing_columns_say_which_option_helps(tmp_path: Path) -> None:
    no_peid = write_geoparquet(tmp_path / "a.parquet", [{"geometry": BERLIN, "categories": ["a"]}])
    no_categories = write_geoparquet(tmp_path / "b.parquet", [{"geometry": BERLIN, "peid": 1}])
    with pytest.raises(SourceError, match="--id-field"):
        import_world([no_peid], tmp_path / "world")
    with pytest.raises(SourceError, match="no column 'ident'"):
        import_world([no_peid], tmp_path / "world", id_field="ident")
    with pytest.raises(SourceError, match="--category"):
        import_world([no_categories], tmp_path / "world")


def test_files_of_one_folder_must_agree(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    write_geoparquet(folder / "a.parquet", [row(1)], crs=25833)
    write_geoparquet(folder / "b.parquet", [row(2)], crs=25832)
    with pytest.raises(SourceError, match="differ"):
        import_world([folder], tmp_path / "world")


@pytest.mark.parametrize("keep", [0, 3, 50, -1])
def test_a_truncated_file_is_refused(tmp_path: Path, keep: int) -> None:
    whole = write_geoparquet(tmp_path / "s.parquet", [row(n) for n in range(100)]).read_bytes()
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(whole[:keep])
    with pytest.raises(SourceError, match="not Parquet"):
        import_world([cut], tmp_path / "world")


def test_damage_inside_a_file_is_refused(tmp_path: Path) -> None:
    source = write_geoparquet(tmp_path / "s.parquet", [row(n) for n in range(5000)])
    pages = pq.read_metadata(source).row_group(0).column(0)
    damaged = bytearray(source.read_bytes())
    start = pages.dictionary_page_offset or pages.data_page_offset
    damaged[start : start + 40] = b"\xff" * 40
    source.write_bytes(damaged)
    with pytest.raises(SourceError, match=r"s\.parquet"):
        import_world([source], tmp_path / "world")
    assert not (tmp_path / "world" / "entities").exists()


def text_of_bytes(*values: bytes) -> pa.Array:
    """A column of texts out of any bytes: Arrow does not look at them."""
    joined = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(values), joined.buffers())


@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])
def test_a_text_that_is_not_utf_8_is_a_problem_of_its_row_alone(tmp_path: Path, kind: str) -> None:
    path = write_geoparquet(tmp_path / "s.parquet", [row(1, name="x"), row(2), row(3)])
    table = pq.read_table(path)
    names = text_of_bytes(b"caf\xe9", b"b", b"c")
    names = names.dictionary_encode() if kind == "dictionary" else names.cast(kind)
    texts = text_of_bytes(b"a", b"bad\xed\xa0", b"a", b"bad\xff")
    categories = pa.ListArray.from_arrays(pa.array([0, 1, 2, 4], pa.int32()), texts)
    for name, column in (("name", names), ("categories", categories)):
        table = table.set_column(table.schema.get_field_index(name), name, column)
    pq.write_table(table, path)
    report = import_world([path], str(tmp_path / "world"))
    assert {each.kind: (each.count, each.kept) for each in report.problems} == {
        "malformed-name": (1, 1),
        "malformed-category": (2, 1),
    }
    world = load_snapshot(str(tmp_path / "world"))
    assert world.peids.tolist() == [1, 3]
    assert list(world.names) == ["caf\N{REPLACEMENT CHARACTER}", "c"]


def nested(levels: int, order: str, code: int = 7) -> bytes:
    """A point in so many collections."""
    first = b"\x01" if order == "little" else b"\x00"
    header = first + code.to_bytes(4, order) + (1).to_bytes(4, order)
    return header * levels + shapely.to_wkb(BERLIN)


# The stack of a process ends somewhere between 10,000 and 200,000 levels.
@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("code", [4, 7, 1_006, 0x80000007])
def test_collections_nested_deep_do_not_end_the_import(
    tmp_path: Path, order: str, code: int
) -> None:
    path = write_geoparquet(tmp_path / "s.parquet", [row(1), row(2)])
    table = pq.read_table(path)
    wkb = pa.array([nested(200_000, order, code), shapely.to_wkb(BERLIN)], pa.binary())
    table = table.set_column(table.schema.get_field_index("geometry"), "geometry", wkb)
    pq.write_table(table, path)
    report = import_world([path], str(tmp_path / "world"))
    [problem] = report.problems
    assert (problem.kind, problem.count, problem.kept) == ("broken-geometry", 1, 0)
    assert load_snapshot(str(tmp_path / "world")).peids.tolist() == [2]


def test_depth_of_collections() -> None:
    assert not is_too_deep(nested(MOST_LEVELS, "little"))
    assert is_too_deep(nested(MOST_LEVELS + 1, "little"))
    line = shapely.LineString([(0, 0, 1), (1, 1, 1)])
    area = shapely.Point(0, 0).buffer(1).difference(shapely.Point(0, 0).buffer(0.5))
    for part in (shapely.Point(1, 2), line, area, shapely.Point()):
        wide = shapely.GeometryCollection([shapely.GeometryCollection([part])] * 5_000)
        for flavor in ("iso", "extended"):
            wkb = shapely.to_wkb(shapely.set_srid(wide, 4326), flavor=flavor, include_srid=False)
            assert not is_too_deep(wkb)
        # After all those parts the deep one is found, wherever it stands.
        header = wkb[:5] + (5_001).to_bytes(4, "little")
        assert is_too_deep(header + wkb[9:] + nested(MOST_LEVELS, "little"))
        assert not is_too_deep(header + wkb[9:] + nested(MOST_LEVELS - 1, "little"))
