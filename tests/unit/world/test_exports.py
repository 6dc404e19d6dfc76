"""What is exported can be read by others, and comes back as it was."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from pyproj import CRS, Transformer

from schemas.entity import peid_of_key
from spaps.cli.command_line import run
from tests.scenes.source_files import feature, write_geojson
from world.imports.world_import import import_world
from world.versions.store import WorldStore

# Clockwise, as RFC 7946 does not want it.
ZONE = shapely.Polygon([(13.4, 52.5), (13.4, 52.51), (13.41, 52.51), (13.41, 52.5)])
STOP = shapely.Point(13.405, 52.505)
MONTE_CARLO = "({4000000005986438},{zone/admin/+},T)•(Prev,{shop/#},C) visible 01"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    features = [
        {**feature(ZONE, categories=["zone", "a/b"], name="=1+1"), "id": "way/1#2"},
        {**feature(STOP, categories=["stop"], name='Zoo "A", B\n2'), "id": 7},
        {**feature(STOP, categories=["stop"]), "id": "@x"},
    ]
    import_world([write_geojson(folder / "s.geojson", features)], folder / "world")
    return folder / "world"


def export(world: Path | str, file: Path, *options: str) -> Path:
    assert run(["export", "--world", str(world), str(file), *options]) == 0
    return file


def stored(world: Path) -> list[dict[str, Any]]:
    store = WorldStore(str(world))
    return sorted(store.entities(store.latest().version).to_pylist(), key=lambda row: row["peid"])


@pytest.mark.parametrize("ending", ["parquet", "geoparquet", "PARQUET"])
def test_geoparquet_has_valid_metadata(world: Path, tmp_path: Path, ending: str) -> None:
    """Each point of the specification 1.1.0 that applies to these columns."""
    file = export(world, tmp_path / f"o.{ending}")
    schema = pq.read_schema(file)
    geo = json.loads(schema.metadata[b"geo"])
    assert geo["version"] == "1.1.0"
    assert geo["primary_column"] in geo["columns"]
    assert geo["columns"].keys() == {"geometry"}
    assert schema.field("geometry").type == pa.binary()
    facts = geo["columns"]["geometry"]
    assert facts.keys() == {"encoding", "geometry_types", "crs", "bbox"}
    assert facts["encoding"] == "WKB"
    assert CRS.from_json_dict(facts["crs"]).to_epsg() == 32633
    rows = pq.read_table(file).to_pylist()
    shapes = shapely.from_wkb([row["geometry"] for row in rows])
    assert sorted({shape.geom_type for shape in shapes}) == sorted(facts["geometry_types"])
    assert facts["bbox"] == shapely.total_bounds(shapes).tolist()
    assert rows == [{name: row[name] for name in schema.names} for row in stored(world)]


def test_geoparquet_comes_back_as_the_same_world(world: Path, tmp_path: Path) -> None:
    file = export(world, tmp_path / "o.parquet")
    again = import_world([file], tmp_path / "again", strict=True)
    assert again.facts.checksum == WorldStore(str(world)).latest().checksum


def test_monaco_comes_back_as_the_same_world(monaco_world: str, tmp_path: Path) -> None:
    file = export(monaco_world, tmp_path / "monaco.parquet")
    again = import_world([file], tmp_path / "again", strict=True)
    assert again.facts.checksum == WorldStore(monaco_world).latest().checksum


def test_geojson_is_in_degrees_with_peids_as_text(world: Path, tmp_path: Path) -> None:
    document = json.loads(export(world, tmp_path / "o.geojson").read_text("utf-8"))
    assert document["type"] == "FeatureCollection"
    found = {each["id"]: each for each in document["features"]}
    assert found.keys() == {"way/1#2", "7", "@x"}
    zone = found["way/1#2"]
    assert zone["properties"] == {
        "peid": str(peid_of_key("way/1#2")), "name": "=1+1", "categories": ["a/b", "zone"],
    }  # fmt: skip
    shape = shapely.geometry.shape(zone["geometry"])
    assert shapely.is_ccw(shape.exterior)
    assert shapely.equals_exact(shapely.normalize(shape), shapely.normalize(ZONE), 1e-7)
    again = import_world([tmp_path / "o.geojson"], tmp_path / "again", strict=True)
    assert again.facts.entity_count == 3
    assert [row["key"] for row in stored(tmp_path / "again")] == [
        row["key"] for row in stored(world)
    ]


def test_csv_has_wkt_and_no_formulas(world: Path, tmp_path: Path) -> None:
    with export(world, tmp_path / "o.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["peid"]: row for row in csv.DictReader(file)}
    assert rows.keys() == {str(row["peid"]) for row in stored(world)}
    zone, number = rows[str(peid_of_key("way/1#2"))], rows["7"]
    assert (zone["key"], zone["name"], zone["categories"]) == ("way/1#2", "'=1+1", "a/b; zone")
    assert number["name"] == 'Zoo "A", B\n2'
    assert rows[str(peid_of_key("@x"))]["key"] == "'@x"
    for row in rows.values():
        assert not any(re.match(r"\s*[=+\-@]", cell) for cell in row.values())
    assert shapely.equals_exact(shapely.from_wkt(number["wkt"]), STOP, 1e-7)


@pytest.mark.parametrize("ending", ["parquet", "geojson", "csv"])
def test_members_of_a_neighborhood(monaco_world: str, tmp_path: Path, ending: str) -> None:
    """The same rows as `spaps resolve`, visible stages only."""
    file = export(monaco_world, tmp_path / f"o.{ending}", "--neighborhood", MONTE_CARLO)
    match ending:
        case "parquet":
            rows = pq.read_table(file).to_pylist()
        case "geojson":
            rows = [each["properties"] for each in json.loads(file.read_text())["features"]]
        case _:
            rows = list(csv.DictReader(file.open(encoding="utf-8", newline="")))
    found = {(int(row["peid"]), int(row["stageNo"])) for row in rows}
    out = tmp_path / "members.geojson"
    assert run(["resolve", "--world", monaco_world, "--geojson", str(out), MONTE_CARLO]) == 0
    resolved = [each["properties"] for each in json.loads(out.read_text())["features"]]
    assert found == {(int(p["peid"]), p["stageNo"]) for p in resolved if p["stageNo"] == 2}
    assert len(found) == len(rows) > 10


def test_an_empty_neighborhood_is_an_empty_file(monaco_world: str, tmp_path: Path) -> None:
    nothing = "({4000000005986438},{zone/admin/+},C AND T)"
    for ending in ("parquet", "geojson", "csv"):
        export(monaco_world, tmp_path / f"o.{ending}", "--neighborhood", nothing)
    assert pq.read_table(tmp_path / "o.parquet").num_rows == 0
    assert json.loads((tmp_path / "o.geojson").read_text())["features"] == []
    assert (tmp_path / "o.csv").read_text().splitlines() == ["peid,key,name,categories,stageNo,wkt"]


def test_coordinates_are_those_of_the_source(world: Path, tmp_path: Path) -> None:
    """Against pyproj, by itself."""
    rows = pq.read_table(export(world, tmp_path / "o.parquet")).to_pylist()
    stop = shapely.from_wkb(next(row["geometry"] for row in rows if row["key"] == "7"))
    x, y = Transformer.from_crs(4326, 32633, always_xy=True).transform(13.405, 52.505)
    assert shapely.equals_exact(stop, shapely.Point(x, y), 1e-9)
