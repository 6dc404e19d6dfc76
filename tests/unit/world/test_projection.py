"""The one metric CRS of a version."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import shapely
from pyproj import CRS

from world.imports.projection import WGS84, choose_crs, is_metric, utm_zones


@pytest.mark.parametrize(
    ("longitude", "latitude", "code"),
    [
        (-180.0, 1.0, 32601),
        (-174.1, 1.0, 32601),
        (-174.0, 1.0, 32602),
        (7.42, 43.73, 32632),
        (13.4, 52.5, 32633),
        (0.0, 0.0, 32631),
        (-0.1, -0.1, 32730),
        (151.2, -33.9, 32756),
        (179.9, -17.0, 32760),
        (180.0, 1.0, 32601),
    ],
)
def test_the_zone_of_a_place(longitude: float, latitude: float, code: int) -> None:
    place = np.array([shapely.Point(longitude, latitude)])
    assert utm_zones(place, WGS84) == {code: 1}


def test_zones_are_counted_by_geometry_in_any_crs() -> None:
    lines = np.array(
        [
            shapely.LineString([(390_000, 5_820_000), (400_000, 5_820_000)]),
            shapely.LineString([(390_000, 5_820_000), (9e9, 9e9)]),
            shapely.Point(100_000, 5_820_000),
        ]
    )
    assert utm_zones(lines, CRS.from_epsg(25833)) == {32633: 2, 32632: 1}
    assert utm_zones(np.empty(0, object), WGS84) == {}


def test_the_fullest_zone_wins_and_a_stray_point_changes_nothing() -> None:
    around_the_date_line = Counter({32660: 50, 32601: 49, 32631: 1})
    assert choose_crs([WGS84], lambda: around_the_date_line).to_epsg() == 32660


def test_a_tie_goes_to_the_smaller_code() -> None:
    assert choose_crs([WGS84], lambda: Counter({32633: 2, 32632: 2})).to_epsg() == 32632


def test_a_shared_metric_crs_is_kept_without_counting() -> None:
    def never() -> Counter[int]:
        raise AssertionError

    metric = CRS.from_epsg(25833)
    assert choose_crs([metric, metric], never) is metric


@pytest.mark.parametrize(
    ("code", "metric"),
    [
        (25833, True),
        (32632, True),
        (32760, True),
        (2154, True),
        (3035, True),
        (27700, True),
        (2193, True),
        (3413, True),
        (3857, False),
        (3395, False),
        (4087, False),
        (4326, False),
        (2263, False),
        (4978, False),
    ],
)
def test_which_crs_measures_in_metres(code: int, *, metric: bool) -> None:
    assert is_metric(CRS.from_epsg(code)) is metric


def test_a_crs_without_a_code_is_not_metric_to_us() -> None:
    """The version has to say its CRS by a number."""
    assert not is_metric(CRS.from_proj4("+proj=tmerc +lat_0=1.5 +lon_0=7.25 +units=m"))
