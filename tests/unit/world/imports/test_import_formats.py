"""The same entities out of every format; and what is said about files that are no such thing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio.raw
import pytest
import shapely
from deltalake import DeltaTable, write_deltalake

from schemas.errors import SourceError
from tests.scenes.source_files import feature, write_geojson
from world.imports.world_import import import_world
from world.sources.wkb import MOST_LEVELS, parsed_geometries
from world.versions.store import WorldStore

SRID = 25833
SHAPES = [
    shapely.Point(390_000, 5_820_000),
    shapely.Point(390_000.5, 5_820_001),
    shapely.Point(390_010, 5_820_000),
]
KEYS = ["a", "Straße 7", "0017"]
NAMES = ["Größe", None, "x"]
COLUMNS = {"id": KEYS, "name": NAMES, "category": ["p/q", "p", "p/ö"]}


def table_of(geometry: pa.Array) -> pa.Table:
    return pa.table({**COLUMNS, "geom": geometry})


def wkb() -> pa.Array:
    return pa.array(shapely.to_wkb(SHAPES), pa.binary())


def wkb_parquet(folder: Path) -> tuple[Path, dict[str, str]]:
    pq.write_table(table_of(wkb()), folder / "s.parquet")
    return folder / "s.parquet", {"crs": f"EPSG:{SRID}"}


def wkt_parquet(folder: Path) -> tuple[Path, dict[str, str]]:
    written = pa.array([f"SRID={SRID};{shapely.to_wkt(shape, -1)}" for shape in SHAPES])
    table = table_of(written).rename_columns(["id", "name", "category", "lage"])
    pq.write_table(table, folder / "s.parquet")
    return folder / "s.parquet", {"crs": str(SRID), "geometry_field": "lage"}


def delta(folder: Path) -> tuple[Path, dict[str, str]]:
    """In two commits, after a row that was deleted again, below a name with a space."""
    place = folder / "my table"
    rows = table_of(wkb())
    gone = rows.slice(0, 1).set_column(0, "id", pa.array(["gone"]))
    write_deltalake(str(place), gone, partition_by=["category"])
    write_deltalake(str(place), rows.slice(0, 2), mode="append")
    DeltaTable(str(place)).delete("id = 'gone'")
    write_deltalake(str(place), rows.slice(2), mode="append")
    return place, {"crs": f"EPSG:{SRID}"}


def vector(folder: Path, name: str, driver: str) -> tuple[Path, dict[str, str]]:
    pyogrio.raw.write_arrow(
        table_of(wkb()), folder / name, driver=driver, geometry_name="geom",
        geometry_type="Point", crs=f"EPSG:{SRID}", layer=None if driver != "GPKG" else "places",
    )  # fmt: skip
    return folder / name, {}


def shapefile(folder: Path) -> tuple[Path, dict[str, str]]:
    return vector(folder, "s.shp", "ESRI Shapefile")


def geopackage(folder: Path) -> tuple[Path, dict[str, str]]:
    return vector(folder, "s.gpkg", "GPKG")


def old_geojson(folder: Path) -> tuple[Path, dict[str, str]]:
    """As services wrote it before RFC 7946: metric, with the CRS beside the features."""
    crs = {"type": "name", "properties": {"name": f"urn:ogc:def:crs:EPSG::{SRID}"}}
    return write_geojson(folder / "s.geojson", features(), crs=crs), {}


def features() -> list[dict[str, Any]]:
    rows = zip(SHAPES, KEYS, NAMES, COLUMNS["category"], strict=True)
    return [{**feature(s, name=n, category=c), "id": k} for s, k, n, c in rows]


FORMATS = [wkb_parquet, wkt_parquet, delta, shapefile, geopackage, old_geojson]


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
def test_every_format_gives_the_same_entities(
    tmp_path: Path, write: Callable[[Path], tuple[Path, dict[str, str]]]
) -> None:
    source, options = write(tmp_path)
    report = import_world([source], tmp_path / "world", strict=True, **options)
    rows = WorldStore(str(tmp_path / "world")).entities(1).to_pylist()
    found = {row["key"]: (row["name"], row["categories"], row["geometry"]) for row in rows}
    assert found == {
        key: (name, [category], shapely.to_wkb(shape, byte_order=1))
        for key, name, category, shape in zip(KEYS, NAMES, COLUMNS["category"], SHAPES, strict=True)
    }
    assert report.facts.srid == SRID
    assert not import_world([source], tmp_path / "world", **options).created


@pytest.mark.parametrize("separator", ["", "\x1e"])
def test_one_feature_in_each_line(tmp_path: Path, separator: str) -> None:
    degrees = [shapely.Point(13.4 + n / 1000, 52.5) for n in range(3)]
    lines = [
        json.dumps({**feature(place, category="a"), "id": key})
        for place, key in zip(degrees, KEYS, strict=True)
    ]
    for ending in ("geojsonl", "ndjson"):
        path = tmp_path / f"s.{ending}"
        path.write_text("\n".join(separator + line for line in lines) + "\r\n\n")
        import_world([path], tmp_path / ending, strict=True)
        rows = WorldStore(str(tmp_path / ending)).entities(1)
        assert sorted(rows.column("key").to_pylist()) == sorted(KEYS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}\n", "line 1: not a GeoJSON feature"),
        ('\n{"type": "Feature"', "line 2: not JSON: .*delimiter"),
        ('[{"type": "Feature"}]', "line 1: not a GeoJSON feature"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "s.geojsonl").write_text(text)
    with pytest.raises(SourceError, match=reason):
        import_world([tmp_path / "s.geojsonl"], tmp_path / "world")


def test_a_change_of_any_part_of_a_shapefile_is_a_change(tmp_path: Path) -> None:
    source, _ = shapefile(tmp_path)
    facts = import_world([source], tmp_path / "world").facts
    parts = [
        file
        for file in tmp_path.glob("s.*")
        if file.suffix in (".shp", ".dbf", ".shx", ".prj", ".cpg")
    ]
    assert facts.sources[0].bytes == sum(file.stat().st_size for file in parts)
    named = (tmp_path / "s.dbf").read_bytes()
    (tmp_path / "s.dbf").write_bytes(named.replace(b"x ", b"y ", 1))
    assert import_world([source], tmp_path / "world").created


def damaged(path: Path, content: bytes = b"nonsense") -> Path:
    path.write_bytes(content)
    return path


def without_crs(folder: Path) -> Path:
    source, _ = shapefile(folder)
    (folder / "s.prj").unlink()
    return source


def without_attributes(folder: Path) -> Path:
    source, _ = shapefile(folder)
    (folder / "s.dbf").unlink()
    return source


def two_layers(folder: Path) -> Path:
    source, _ = geopackage(folder)
    pyogrio.raw.write_arrow(
        table_of(wkb()), source, driver="GPKG", geometry_name="geom", geometry_type="Point",
        crs="EPSG:25833", layer="more", append=True,
    )  # fmt: skip
    return source


def broken_log(folder: Path) -> Path:
    source, _ = delta(folder)
    for entry in (source / "_delta_log").glob("*.json"):
        entry.write_text("{")
    return source


def no_geometry(folder: Path) -> Path:
    pq.write_table(pa.table({"id": ["a"], "category": ["b"]}), folder / "s.parquet")
    return folder / "s.parquet"


@pytest.mark.parametrize(
    ("write", "options", "reason"),
    [
        (lambda folder: damaged(folder / "s.gpkg"), {}, "not recognized"),
        (lambda folder: damaged(folder / "s.shp"), {}, r"s\.shp: "),
        (without_crs, {}, "--crs"),
        (without_attributes, {}, "--id-field"),
        (two_layers, {}, r"several layers: name one with --layer \(its layers: places, more\)"),
        (two_layers, {"layer": "less"}, r"no layer 'less' \(its layers: places, more\)"),
        (broken_log, {}, "_delta_log"),
        (no_geometry, {}, "--geometry-field"),
        (lambda folder: wkb_parquet(folder)[0], {}, "--crs"),
        (lambda folder: wkb_parquet(folder)[0], {"geometry_field": "id"}, "CRS"),
        (lambda folder: wkb_parquet(folder)[0], {"geometry_field": "nope"}, "'nope' is not there"),
        (lambda folder: delta(folder)[0], {}, "--crs"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(
    tmp_path: Path, write: Callable[[Path], Path], options: dict[str, str], reason: str
) -> None:
    source = write(tmp_path)
    with pytest.raises(SourceError, match=reason) as caught:
        import_world([source], tmp_path / "world", **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(source))
    assert not (tmp_path / "world" / "entities").exists()


def test_the_right_layer_and_the_crs_that_is_given(tmp_path: Path) -> None:
    facts = import_world([two_layers(tmp_path)], tmp_path / "layers", layer="more").facts
    assert facts.entity_count == 3
    facts = import_world([without_crs(tmp_path)], tmp_path / "crs", crs="EPSG:25832").facts
    assert facts.srid == 25832


def test_wkt_that_cannot_be_read_is_listed(tmp_path: Path) -> None:
    texts = ["POINT (390000 5820000)", "POINT (1", "", None, "CIRCULARSTRING (0 0, 1 1, 2 0)"]
    rows = {"id": [*"abcde"], "category": ["x"] * 5, "wkt": texts}
    pq.write_table(pa.table(rows), tmp_path / "s.parquet")
    report = import_world([tmp_path / "s.parquet"], tmp_path / "world", crs="EPSG:25833")
    assert report.facts.problem_counts == {
        "broken-geometry": 2, "missing-geometry": 1, "unknown-geometry-type": 1,
    }  # fmt: skip
    deep = "GEOMETRYCOLLECTION (" * (MOST_LEVELS + 1) + "POINT (1 2)" + ")" * (MOST_LEVELS + 1)
    geometries, faults = parsed_geometries([deep, texts[0]])
    assert faults.keys() == {0}
    assert shapely.equals_identical(geometries[1], SHAPES[0])
