"""A city's own GeoJSON: looked at, imported, searched, resolved, exported, read by geopandas."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.entity import peid_of_key

Spaps = Callable[..., subprocess.CompletedProcess[str]]

DISTRICTS = {"B-1": "Südstadt", "B-2": "Mühlenviertel"}
RULES = """
names = ["label"]
[[rule]]
match = { art = "Bezirk" }
category = "zone/district"
[[rule]]
match = { art = "Ladesäule", kw = "*" }
category = "charging/fast"
[[rule]]
match = { art = "Ladesäule" }
unless = { kw = "*" }
category = "charging/slow"
"""


def feature(key: str, geometry: object, **properties: object) -> dict[str, object]:
    return {"type": "Feature", "properties": {"nr": key, **properties}, "geometry": geometry}


def square(west: float) -> dict[str, object]:
    corners = [(0, 0), (0.01, 0), (0.01, 0.01), (0, 0.01), (0, 0)]
    ring = [[round(west + x, 4), round(50.93 + y, 4)] for x, y in corners]
    return {"type": "Polygon", "coordinates": [ring]}


def stations() -> list[dict[str, object]]:
    """Thirty charging stations in a row through both districts, each third one a fast one."""
    points = [(6.95 + number * 0.02 / 30 + 0.0003, 50.935) for number in range(30)]
    return [
        feature(
            f"L-{number}",
            {"type": "Point", "coordinates": list(point)},
            art="Ladesäule",
            kw=150 if number % 3 == 0 else None,
            label=f"Säule {number}",
        )
        for number, point in enumerate(points)
    ]


@pytest.fixture
def city(tmp_path: Path) -> Path:
    """The file as the city publishes it, with a row that nobody can use."""
    rows = [
        feature(key, square(6.95 + at / 100), art="Bezirk", label=label)
        for at, (key, label) in enumerate(DISTRICTS.items())
    ]
    rows += [*stations(), feature("L-99", None, art="Ladesäule", label="planned")]
    path = tmp_path / "city.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": rows}), "utf-8")
    (tmp_path / "rules.toml").write_text(RULES, "utf-8")
    return path


def test_from_a_file_of_ones_own_to_what_others_read(
    city: Path, spaps: Spaps, tmp_path: Path
) -> None:
    def done(*arguments: str) -> str:
        result = spaps(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    world = ("--world", "world")
    understood = ("--id-field", "nr", "--rules", "rules.toml")
    seen = done("import", "city.geojson", "--dry-run", *world, *understood)
    for expected in (
        "32 of 33 rows",
        "charging/fast",
        "zone/district",
        "has no geometry",
        "Südstadt",
    ):
        assert expected in seen
    assert not (tmp_path / "world").exists()

    made = done("import", "city.geojson", *world, *understood)
    assert "version 1: imported; 32 entities, EPSG:32632" in made
    found = json.loads(done("find", "MUHLEN", "--json", *world))["entities"]
    assert [(one["key"], one["name"]) for one in found] == [("B-2", "Mühlenviertel")]
    assert found[0]["peid"] == str(peid_of_key("B-2"))

    neighborhood = f"({{{found[0]['peid']}}},{{charging/+}},C)"
    members = json.loads(done("resolve", "--json", neighborhood, *world))["stages"][0]["peids"]
    inside = {f"L-{number}" for number in range(15, 30)}
    assert set(members) == {str(peid_of_key(key)) for key in inside}
    done("map", *world, "--out", "map.html")
    assert (tmp_path / "map.html").stat().st_size > 10_000

    done("export", *world, "all.parquet")
    done("export", *world, "--neighborhood", neighborhood, "members.geojson")
    done("export", *world, "--neighborhood", neighborhood, "members.csv")
    check_everything(tmp_path / "all.parquet", city)
    check_members(tmp_path, inside)


def check_everything(exported: Path, city: Path) -> None:
    """GeoParquet, as geopandas reads it, has every row of the source where it was."""
    # Imported late: every process of the tests loads this module.
    import geopandas  # noqa: PLC0415

    frame = geopandas.read_parquet(exported).set_index("key")
    assert frame.crs.to_epsg() == 32632
    source = geopandas.read_file(city).dropna(subset="geometry").set_index("nr")
    assert set(frame.index) == set(source.index)
    moved = source.geometry.to_crs(frame.crs).reindex(frame.index)
    assert frame.geometry.hausdorff_distance(moved).max() < 0.01
    assert frame["name"].to_dict() == source["label"].to_dict()
    assert frame.loc["B-1", "peid"] == peid_of_key("B-1")
    assert list(frame.loc["L-3", "categories"]) == ["charging/fast"]


def check_members(folder: Path, inside: set[str]) -> None:
    """GeoJSON and CSV have the members, with peids that lose no digit."""
    import geopandas  # noqa: PLC0415
    import pandas as pd  # noqa: PLC0415

    members = geopandas.read_file(folder / "members.geojson")
    assert members.crs.to_epsg() == 4326
    assert set(members["id"]) == inside
    assert {int(peid) for peid in members["peid"]} == {peid_of_key(key) for key in inside}
    assert set(members["stageNo"]) == {1}
    rows = pd.read_csv(folder / "members.csv", dtype={"peid": str})
    assert dict(zip(rows["key"], rows["peid"], strict=True)) == {
        key: str(peid_of_key(key)) for key in inside
    }
    points = geopandas.GeoSeries.from_wkt(rows["wkt"])
    assert points.x.between(6.96, 6.97).all()
