"""A dry run says what an import would make, and writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import shapely

from spaps.cli.command_line import run
from tests.scenes.source_files import feature, write_geojson
from world.imports.dry_run import ADVICE, dry_run
from world.imports.import_request import request_of
from world.imports.world_import import import_world
from world.sources.candidates import ProblemKind

VILLAGE = Path(__file__).resolve().parents[3] / "extracts" / "village.osm"
BOW_TIE = shapely.Polygon([(13, 52), (13.1, 52.1), (13.1, 52), (13, 52.1)])


def source_in(folder: Path) -> Path:
    line = shapely.LineString([(13.4, 52.5), (13.41, 52.5)])
    return write_geojson(
        folder / "stops.geojson",
        [
            {**feature(shapely.Point(13.4, 52.5), category="bus", name="Zoo\x1b[31m"), "id": "a"},
            {**feature(line, category="tram"), "id": 7},
            {**feature(BOW_TIE, category="tram"), "id": "broken"},
            feature(line, category="tram"),
        ],
    )


def test_it_says_what_the_import_then_makes(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    request = request_of([source, VILLAGE])
    found = dry_run(request)
    assert list(tmp_path.iterdir()) == [source]
    report = import_world([source, VILLAGE], tmp_path / "world")
    assert found.entities == report.facts.entity_count
    assert found.srid == report.facts.srid
    assert found.extent == report.extent
    assert [(p.kind, p.count, p.kept) for p in found.problems] == [
        (p.kind, p.count, p.kept) for p in report.problems
    ]
    assert sum(found.geometries.values()) == sum(found.ids.values()) == found.entities


def test_what_it_says_about_one_source(tmp_path: Path) -> None:
    found = dry_run(request_of([source_in(tmp_path)]))
    (source,) = found.sources
    assert (source.kind, source.rows, source.crs) == ("geojson", 4, "WGS 84 (CRS84)")
    assert found.geometries == {"linestring": 1, "point": 1}
    assert found.categories == {"bus": 1, "tram": 1}
    assert found.ids == {
        "a number, which is the peid": 1, "text, of which the peid is the hash": 1,
    }  # fmt: skip
    first = found.first_rows[0]
    assert (first.key, first.categories, first.geometry) == ("a", ("bus",), "Point")
    assert found.first_rows[1].geometry.startswith("LineString, ")


def test_the_page_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["import", str(source_in(tmp_path)), "--dry-run", "--world", str(tmp_path / "w")]) == 0
    )
    said = capsys.readouterr().out
    for words in (
        "dry run: nothing is written", "stops.geojson", "EPSG:32633", "2 of 4 rows", "bus",
        "broken-geometry: 1 (0 kept, 1 left out)", "Fix geometries", "missing-key: 1",
        r"Zoo\x1b[31m",
    ):  # fmt: skip
        assert words in said
    assert not (tmp_path / "w").exists()


def test_strict_fails_after_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", str(source_in(tmp_path)), "--dry-run", "--strict"]) == 2
    said = capsys.readouterr()
    assert "dry run" in said.out
    assert "strict import, nothing written" in said.err


def test_there_is_advice_for_every_problem() -> None:
    assert ADVICE.keys() == set(ProblemKind)
