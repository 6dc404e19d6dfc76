"""Where an import lies: the extent that is printed, and warnings about coordinates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from pyproj import CRS

from schemas.errors import SourceError
from spaps.cli.command_line import run
from tests.scenes.source_files import feature, write_geojson
from world.imports.extent import (
    Extent,
    extent_of,
    placement_warnings,
    scale_warning,
    source_place,
)
from world.imports.world_import import ImportReport, import_world

BERLIN = [(13.4, 52.5), (13.5, 52.6)]
SWAPPED = [(y, x) for x, y in BERLIN]


def imported(folder: Path, *sources: list[tuple[float, float]], **options: Any) -> ImportReport:
    paths = []
    for number, points in enumerate(sources):
        features = [
            feature(shapely.Point(point), peid=10 * number + at, categories=["a"])
            for at, point in enumerate(points)
        ]
        paths.append(write_geojson(folder / f"source{number}.geojson", features))
    return import_world(paths, folder / "world", **options)


def test_the_extent_is_that_of_the_source_to_a_metre(tmp_path: Path) -> None:
    report = imported(tmp_path, BERLIN)
    assert report.extent is not None
    found = [report.extent.west, report.extent.south, report.extent.east, report.extent.north]
    assert np.allclose(found, [13.4, 52.5, 13.5, 52.6], atol=1e-5)
    assert report.warnings == ()


def test_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    features = [feature(shapely.Point(52.5, 13.4), peid=1, categories=["a"])]
    source = write_geojson(tmp_path / "swapped.geojson", features)
    assert run(["import", str(source), "--world", str(tmp_path / "world")]) == 0
    told = capsys.readouterr().out
    assert "longitude 52.5000 to 52.5000, latitude 13.4000 to 13.4000 (WGS 84)" in told


def test_latitudes_above_90_that_are_longitudes(tmp_path: Path) -> None:
    """Sydney the wrong way round: one point is left out, and it is said why."""
    report = imported(tmp_path, [(-33.9, 151.2), (-33.8, 80.0)])
    [warning] = report.warnings
    assert "longitude and latitude look swapped: 1 of 2 lie outside ±90° latitude" in warning


def test_when_nothing_is_left_the_reason_is_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"look swapped: 2 of 2 lie outside ±90° latitude"):
        imported(tmp_path, [(-33.9, 151.2), (-33.8, 151.3)])


def test_metres_in_a_file_of_degrees(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="these are no degrees, or their CRS is another"):
        imported(tmp_path, [(390_000.0, 5_820_000.0)])


def test_a_source_that_is_swapped_beside_others(tmp_path: Path) -> None:
    report = imported(tmp_path, BERLIN, BERLIN[:1], SWAPPED, srid=25833)
    [warning] = report.warnings
    assert "source2.geojson: longitude and latitude look swapped" in warning
    assert "far from the other sources" in warning


def test_a_source_that_is_swapped_in_the_next_version(tmp_path: Path) -> None:
    imported(tmp_path, BERLIN)
    assert imported(tmp_path, [(13.45, 52.55)]).warnings == ()
    [warning] = imported(tmp_path, SWAPPED).warnings
    assert "far from the version before" in warning
    # A world that really moves is somewhere else both ways.
    assert imported(tmp_path, [(-70.6, -33.4)]).warnings == ()


@pytest.mark.parametrize(
    ("point", "outside"),
    [((180, 90), 0), ((-180, -90), 0), ((180.1, 0), 1), ((0, 90.1), 1), ((0, -90.1), 1)],
)
def test_the_edge_of_the_earth(point: tuple[float, float], outside: int) -> None:
    shapes = np.array([shapely.Point(point), shapely.Point(1, 1)])
    place = source_place("s", shapes, CRS.from_epsg(4326))
    assert place is not None
    assert place.outside == outside
    assert len(placement_warnings([place])) == outside


def test_degrees_in_a_source_whose_crs_is_in_metres() -> None:
    shapes = np.array([shapely.Point(point) for point in BERLIN])
    place = source_place("s", shapes, CRS.from_epsg(25833))
    assert place is not None
    [warning] = placement_warnings([place])
    assert "its coordinates look like degrees, but its CRS is in metres" in warning
    # Negative controls: degrees in degrees, metres in metres.
    for points, crs in ((BERLIN, 4326), ([(390_000.0, 5_820_000.0)], 25833)):
        placed = source_place("s", np.array([*map(shapely.Point, points)]), CRS.from_epsg(crs))
        assert placed is not None
        assert placement_warnings([placed]) == []


def test_a_crs_of_another_place_of_the_earth(tmp_path: Path) -> None:
    [warning] = imported(tmp_path, BERLIN, srid=32630).warnings
    assert warning.startswith("distances in EPSG:32630 are up to 1.5%")
    assert warning.endswith("choose a CRS that is made for all of them with --srid")
    assert scale_warning(Extent(9, 50, 15, 55), CRS.from_epsg(32632)) == []


def test_numbers_that_are_no_degrees_stay_short() -> None:
    assert Extent(0, 0, 1e300, 1).ranges() == ("0.0000 to 1e+300", "0.0000 to 1.0000")


def test_the_extent_of_nothing() -> None:
    assert extent_of(np.array([], object), CRS.from_epsg(25833)) is None
    assert extent_of(np.array([shapely.Point()]), CRS.from_epsg(4326)) is None
    assert Extent(1, 2, 3, 4).swapped() == Extent(2, 1, 4, 3)
