"""Places as geometries: checked, and projected into the metric CRS of a world version.

Every engine projects with ``projected_places``, so all see the same coordinates. Corners are
projected, and edges are straight between them. A place that the CRS cannot hold stands for
nothing on that version, like an entity that the version does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import Transformer

from schemas.errors import DescriptorError
from schemas.language.neighborhood import Neighborhood
from schemas.language.places import place_words
from spatial_udfs.entity_table import Geometries

# Longitude first, as in GeoJSON.
WGS84: Final = "OGC:CRS84"


def check_places(neighborhood: Neighborhood) -> None:
    """Raise DescriptorError for a place that is no valid geometry, such as a crossed ring."""
    if not neighborhood.places:
        return
    geometries: Geometries = shapely.from_wkt(np.array(neighborhood.places, dtype=object))
    for number in np.flatnonzero(~shapely.is_valid(geometries))[:1].tolist():
        reason = shapely.is_valid_reason(geometries[number])
        raise DescriptorError(
            f"the place {place_words(neighborhood.places[number])} is broken: {reason}; "
            "allowed: a geometry that OGC Simple Features calls valid",
            1,
        )


def projected_places(places: Sequence[str], srid: int) -> tuple[Geometries, tuple[str, ...]]:
    """Return the geometries in the CRS, and the places that it cannot hold as a whole."""
    if not places:
        return np.empty(0, dtype=object), ()
    transformer = _transformer(srid)

    def transform(points: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.column_stack(transformer.transform(points[:, 0], points[:, 1]))

    written: Geometries = shapely.from_wkt(np.array(places, dtype=object))
    geometries: Geometries = np.asarray(shapely.transform(written, transform))
    corners, owners = shapely.get_coordinates(geometries, return_index=True)
    held = shapely.is_valid(geometries)
    held[owners[~np.isfinite(corners).all(axis=1)]] = False
    lacking = tuple(place for place, there in zip(places, held.tolist(), strict=True) if not there)
    return geometries[held], lacking


@lru_cache(maxsize=16)
def _transformer(srid: int) -> Transformer:
    return Transformer.from_crs(WGS84, srid, always_xy=True)
