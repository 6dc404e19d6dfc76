"""Places as geometries: checked, and projected into the metric CRS of a world version.

Every engine projects with ``projected_places``, so all see the same coordinates. Corners are
projected, and edges are straight between them. A place that the CRS cannot hold stands for
nothing on that version, like an entity that the version does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

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
    """Return the geometries in the CRS, and the places that it cannot hold."""
    if not places:
        return np.empty(0, dtype=object), ()
    geometries = np.array([_projected(place, srid) for place in places], dtype=object)
    held = np.array([geometry is not None for geometry in geometries])
    lacking = tuple(place for place, there in zip(places, held, strict=True) if not there)
    return geometries[held], lacking


@lru_cache(maxsize=256)
def _projected(place: str, srid: int) -> Any:
    """Return the geometry, or None where it cannot be projected as a whole."""
    transformer = _transformer(srid)

    def transform(points: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.column_stack(transformer.transform(points[:, 0], points[:, 1]))

    geometry = shapely.transform(shapely.from_wkt(place), transform)
    is_finite = np.isfinite(shapely.get_coordinates(geometry)).all()
    return geometry if is_finite and shapely.is_valid(geometry) else None


@lru_cache(maxsize=16)
def _transformer(srid: int) -> Transformer:
    return Transformer.from_crs(WGS84, srid, always_xy=True)
