"""A place that a user gives as longitude and latitude, and the distances of entities from it.

shapely and pyproj are imported when distances are measured: loading them takes longer than a
search by text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.errors import SearchError, WorldError
from world.search.searched_world import SearchedWorld

WGS84: Final = "OGC:CRS84"


@dataclass(frozen=True, slots=True)
class Place:
    """A point on WGS 84, in degrees."""

    longitude: float
    latitude: float


def read_place(text: str) -> Place:
    """Return the place that a text such as 7.42,43.74 names: longitude first."""
    try:
        longitude, latitude = (float(part) for part in text.split(","))
    except ValueError:
        raise _wrong(text, "") from None
    if not (math.isfinite(longitude) and math.isfinite(latitude)):
        raise _wrong(text, "")
    if abs(longitude) > 180 or abs(latitude) > 90:
        swapped = abs(longitude) <= 90 and abs(latitude) <= 180
        hint = "; longitude comes first" if swapped else ""
        raise _wrong(text, f": longitude is -180 to 180, latitude -90 to 90{hint}")
    return Place(longitude, latitude)


def _wrong(text: str, why: str) -> SearchError:
    return SearchError(f"the place {text[:40]!r} is not LON,LAT in degrees such as 7.42,43.74{why}")


def distances_from(
    world: SearchedWorld, place: Place, rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the distances of the entities in these rows, in metres in the version's CRS."""
    import shapely  # noqa: PLC0415
    from pyproj import Transformer  # noqa: PLC0415
    from shapely.errors import ShapelyError  # noqa: PLC0415

    to_metres = Transformer.from_crs(WGS84, world.facts.srid, always_xy=True)
    x, y = to_metres.transform(place.longitude, place.latitude)
    if not (np.isfinite(x) and np.isfinite(y)):
        raise SearchError(
            f"the place {place.longitude},{place.latitude} is outside of the map's CRS, "
            f"EPSG:{world.facts.srid}"
        )
    wkb = world.geometries().take(pa.array(rows)) if len(rows) < len(world) else world.geometries()
    try:
        geometries = shapely.from_wkb(wkb.to_numpy())
    except ShapelyError as error:
        raise WorldError(f"an entity has broken geometry: {error}") from error
    return np.asarray(shapely.distance(geometries, shapely.Point(x, y)))
