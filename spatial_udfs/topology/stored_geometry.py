"""Geometries as the lake stores them, read all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from schemas.errors import WorldError
from spatial_udfs.entity_table import Geometries, Int64s


def stored_geometries(written: NDArray[Any], peids: Int64s) -> Geometries:
    """Geometries out of WKB; one that cannot be read is an error that names its entity."""
    read: Geometries = shapely.from_wkb(written, on_invalid="ignore")
    broken = np.flatnonzero(shapely.is_missing(read))
    if len(broken):
        raise WorldError(f"entity {peids[broken[0]]} has no geometry that can be read")
    return read
