"""Exact distances of entities from a place, in the metric CRS of their version."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray
from pyproj import Transformer
from shapely.errors import ShapelyError

from schemas.errors import SearchError, WorldError
from world.search.places import Place
from world.search.searched_world import SearchedWorld

WGS84 = "OGC:CRS84"


def distances_from(
    world: SearchedWorld, place: Place, rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the distances of the entities in these rows, in metres."""
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
