"""Computes where sources and versions lie on the Earth, and warns about likely mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import CRS, Proj

from spatial_udfs.entity_table import Geometries
from world.imports.projection import in_degrees

EAST_END: Final = 180.0
NORTH_END: Final = 90.0
LONG_NUMBER: Final = 1e9
# Over the width of a UTM zone a distance is wrong by 0.1 percent at most.
MOST_SCALE_ERROR: Final = 0.01


@dataclass(frozen=True, slots=True)
class Extent:
    """A box in degrees on WGS 84."""

    west: float
    south: float
    east: float
    north: float

    def __str__(self) -> str:
        longitudes, latitudes = self.ranges()
        return f"longitude {longitudes}, latitude {latitudes} (WGS 84)"

    def ranges(self) -> tuple[str, str]:
        """Return the longitudes and the latitudes for a person."""
        west, south, east, north = map(_degrees, (self.west, self.south, self.east, self.north))
        return f"{west} to {east}", f"{south} to {north}"

    def swapped(self) -> Extent:
        """Return the box with longitude and latitude exchanged."""
        return Extent(self.south, self.west, self.north, self.east)

    def meets(self, other: Extent) -> bool:
        """Return whether the boxes share a point."""
        return (
            self.west <= other.east
            and other.west <= self.east
            and self.south <= other.north
            and other.south <= self.north
        )

    def is_on_earth(self) -> bool:
        """Return whether the box lies within ±180° longitude and ±90° latitude."""
        return (
            max(abs(self.west), abs(self.east)) <= EAST_END
            and max(abs(self.south), abs(self.north)) <= NORTH_END
        )


def _degrees(value: float) -> str:
    # What is no degree can have hundreds of digits.
    return f"{value:.4f}" if abs(value) < LONG_NUMBER else f"{value:.3g}"


def union(extents: Iterable[Extent]) -> Extent | None:
    """Return the box around all extents; None if there are none."""
    boxes = [(each.west, each.south, each.east, each.north) for each in extents]
    if not boxes:
        return None
    corners = np.array(boxes)
    west, south = corners[:, :2].min(axis=0).tolist()
    east, north = corners[:, 2:].max(axis=0).tolist()
    return Extent(west, south, east, north)


def extent_of(geometries: Geometries, crs: CRS) -> Extent | None:
    """Return the box around geometries given in ``crs``; None if they have no point."""
    bounds = shapely.bounds(geometries)
    return extent_of_boxes(bounds[np.isfinite(bounds).all(axis=1)], crs)


def extent_of_boxes(boxes: NDArray[np.float64], crs: CRS) -> Extent | None:
    """Return the box around boxes (min x, min y, max x, max y) in a CRS; None if there are none."""
    if not len(boxes):
        return None
    if crs.is_geographic:
        corners = np.concatenate([boxes[:, :2], boxes[:, 2:]])
    else:
        # The hull is enough: points that are extreme in degrees lie on it, or very near to it.
        everything = shapely.multipoints(boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 2))
        hull = shapely.get_coordinates(shapely.convex_hull(everything))
        corners = in_degrees(hull, crs)
        corners = corners[np.isfinite(corners).all(axis=1)]
        if not len(corners):
            return None
    (west, south), (east, north) = corners.min(axis=0).tolist(), corners.max(axis=0).tolist()
    return Extent(west, south, east, north)


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """The extent of one source; ``outside`` counts the rows with a point off the Earth.

    ``as_degrees`` says that coordinates in a metric CRS are all as small as degrees.
    """

    source: str
    extent: Extent
    rows: int
    outside: int
    as_degrees: bool = False


def source_place(source: str, geometries: Geometries, crs: CRS) -> SourcePlace | None:
    """Return where the rows with finite coordinates lie; None if there are none."""
    extent = extent_of(geometries, crs)
    if extent is None:
        return None
    outside = 0
    if not extent.is_on_earth() and crs.is_geographic:
        bounds = np.abs(shapely.bounds(geometries))
        limits = np.array([EAST_END, NORTH_END, EAST_END, NORTH_END])
        outside = int((bounds > limits).any(axis=1).sum())
    as_degrees = not crs.is_geographic and _are_as_degrees(geometries)
    return SourcePlace(source, extent, len(geometries), outside, as_degrees)


def _are_as_degrees(geometries: Geometries) -> bool:
    west, south, east, north = shapely.total_bounds(geometries).tolist()
    return Extent(west, south, east, north).is_on_earth()


def joined_places(places: Iterable[SourcePlace | None]) -> list[SourcePlace]:
    """Return one place for each source, joined from the places of its parts."""
    parts: dict[str, list[SourcePlace]] = {}
    for place in places:
        if place is not None:
            parts.setdefault(place.source, []).append(place)
    joined = []
    for source, found in parts.items():
        extent = union(part.extent for part in found)
        if extent is not None:
            rows, outside = sum(part.rows for part in found), sum(part.outside for part in found)
            as_degrees = all(part.as_degrees for part in found)
            joined.append(SourcePlace(source, extent, rows, outside, as_degrees))
    return joined


def placement_warnings(places: Sequence[SourcePlace], earlier: Extent | None = None) -> list[str]:
    """Return a warning for each source off the Earth or with longitude and latitude swapped.

    ``earlier`` is the extent of the version before.
    """
    warnings = []
    for place in places:
        if place.outside:
            warnings.append(_off_the_earth(place))
            continue
        if place.as_degrees:
            warnings.append(
                f"{place.source}: its coordinates look like degrees, but its CRS is in metres, so "
                "all of it lies within a few hundred metres: give it the CRS that it has, such as "
                "EPSG:4326"
            )
            continue
        others = [other.extent for other in places if other is not place and not other.outside]
        around = union(others or ([earlier] if earlier else []))
        swapped = place.extent.swapped()
        if around is None or place.extent.meets(around) or not swapped.meets(around):
            continue
        beside = "the other sources" if others else "the version before"
        warnings.append(
            f"{place.source}: longitude and latitude look swapped: it lies far from {beside}, "
            "and beside them when they are exchanged"
        )
    return warnings


def scale_warning(extent: Extent | None, crs: CRS) -> list[str]:
    """Return a warning when distances in the CRS are wrong where the data lie."""
    if extent is None or not extent.is_on_earth():
        return []
    middle = (extent.west + extent.east) / 2, (extent.south + extent.north) / 2
    longitudes = np.array([extent.west, middle[0], extent.east])
    latitudes = np.array([extent.south, middle[1], extent.north])
    places = np.array(np.meshgrid(longitudes, latitudes)).reshape(2, -1)
    factors = Proj(crs).get_factors(*places)
    scales = np.concatenate([factors.meridional_scale, factors.parallel_scale])
    wrong = np.abs(scales[np.isfinite(scales)] - 1).max(initial=0)
    if wrong <= MOST_SCALE_ERROR:
        return []
    shown = f"up to {wrong:.1%}" if wrong < 1 else "more than 100%"
    warning = (
        f"distances in EPSG:{crs.to_epsg()} are {shown} wrong where these entities lie: choose a "
        "CRS that is made for all of them with --srid"
    )
    return [warning]


def _off_the_earth(place: SourcePlace) -> str:
    count = f"{place.outside:,} of {place.rows:,}"
    if place.extent.swapped().is_on_earth():
        return (
            f"{place.source}: longitude and latitude look swapped: {count} lie outside ±90° "
            "latitude, and none when they are exchanged (longitude stands first)"
        )
    return (
        f"{place.source}: {count} lie outside ±180° longitude and ±90° latitude: "
        "these are no degrees, or their CRS is another than the file says: "
        "convert it to WGS 84, or correct the CRS in it"
    )
