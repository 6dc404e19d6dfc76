"""Chooses the metric CRS of a version, and projects coordinates into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import CRS, Proj, Transformer
from pyproj.exceptions import CRSError

from schemas.errors import SettingsError
from spatial_udfs.entity_table import Geometries
from world.sources.candidates import Candidates

# Longitude and latitude on WGS 84: the CRS of GeoJSON and OSM.
WGS84: Final = CRS.from_user_input("OGC:CRS84")
# The scale of national grids is off by a few per cent, that of polar and continental ones by a few
# more; that of world maps by a factor at their edges.
MAX_SCALE: Final = 1.25
ANY_METRIC: Final = 32631


def given_crs(srid: int) -> CRS:
    """Return the CRS that a user asked for; SettingsError if it is not metric."""
    try:
        crs = CRS.from_epsg(srid)
    except CRSError as error:
        raise SettingsError(f"srid {srid}: there is no such EPSG code") from error
    if not is_metric(crs):
        raise SettingsError(
            f"srid {srid} ({crs.name}) does not measure in metres on the ground: "
            "choose a projected CRS such as a UTM zone (326xx, 327xx, 258xx)"
        )
    return crs


def is_metric(crs: CRS) -> bool:
    """Return whether planar distances in this CRS are about metres on the ground.

    The unit alone is not enough: distances in Web Mercator are 1.6 times too long at 52°.
    """
    return (
        crs.is_projected
        and all(axis.unit_conversion_factor == 1.0 for axis in crs.axis_info[:2])
        and crs.to_epsg() is not None
        and _is_true_to_scale(crs)
    )


def _is_true_to_scale(crs: CRS) -> bool:
    """Return whether the scale is near 1 at the corners and in the middle of the CRS's area."""
    area = crs.area_of_use
    if area is None:
        return True
    east = area.east if area.east > area.west else area.east + 360
    longitudes = [area.west, area.west, east, east, (area.west + east) / 2]
    latitudes = [area.south, area.north, area.south, area.north, (area.south + area.north) / 2]
    factors = Proj(crs).get_factors(longitudes, latitudes)
    scales = np.concatenate([factors.meridional_scale, factors.parallel_scale])
    return bool(np.all((scales > 1 / MAX_SCALE) & (scales < MAX_SCALE)))


def choose_crs(sources: Sequence[CRS], count_zones: Callable[[], Counter[int]]) -> CRS:
    """Return the sources' own CRS if they share a metric one, else the UTM zone of the data.

    Zones are counted only when they decide, because counting may read all data.
    """
    if len({crs.to_epsg() for crs in sources}) == 1 and is_metric(sources[0]):
        return sources[0]
    zones = count_zones()
    if not zones:
        return CRS.from_epsg(ANY_METRIC)  # there is no entity to choose by
    # The smaller code wins a tie, so that the choice does not depend on the order of rows.
    return CRS.from_epsg(max(zones, key=lambda code: (zones[code], -code)))


def utm_zones(geometries: Geometries, crs: CRS) -> Counter[int]:
    """Return how many geometries begin in each UTM zone, by EPSG code.

    The zone with most of them becomes the CRS. A bounding box would be wrong for data with a stray
    point at 0° 0°, and for data around the date line, whose middle is on the other side of the
    Earth.
    """
    _, first = np.unique(
        shapely.get_coordinates(geometries, return_index=True)[1], return_index=True
    )
    points = shapely.get_coordinates(geometries)[first]
    longitudes, latitudes = _project(points, crs, WGS84).T
    # Points off the Earth are in no zone, and would not fit an integer.
    there = (np.abs(longitudes) <= 360) & (np.abs(latitudes) <= 90)
    zone = np.floor((longitudes[there] + 180) / 6).astype(int) % 60 + 1
    hemisphere = np.where(latitudes[there] < 0, 32700, 32600)
    return Counter((hemisphere + zone).tolist())


def project(rows: Candidates, source: CRS, target: CRS) -> Candidates:
    """Return the rows with geometries in the target CRS; infinite where it is not defined."""
    if source.equals(target, ignore_axis_order=True):
        return rows
    return replace(
        rows,
        geometries=shapely.transform(
            rows.geometries, lambda points: _project(points, source, target)
        ),
    )


def in_degrees(points: NDArray[np.float64], crs: CRS) -> NDArray[np.float64]:
    """Return the points as longitude and latitude on WGS 84; infinite where that is not defined."""
    return _project(points, crs, WGS84)


def _project(points: NDArray[np.float64], source: CRS, target: CRS) -> NDArray[np.float64]:
    x, y = _transformer(source.to_wkt(), target.to_wkt()).transform(points[:, 0], points[:, 1])
    return np.column_stack([x, y])


@lru_cache(maxsize=16)
def _transformer(source: str, target: str) -> Transformer:
    return Transformer.from_crs(CRS.from_wkt(source), CRS.from_wkt(target), always_xy=True)


def epsg_code(crs: CRS) -> int:
    """Return the EPSG code of a version's CRS; ``is_metric`` has refused every CRS without one."""
    code = crs.to_epsg()
    if code is None:
        raise SettingsError(f"CRS {crs.name} has no EPSG code")
    return code
