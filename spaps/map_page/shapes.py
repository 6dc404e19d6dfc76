"""Geometries as short lists of whole numbers, for the script of the page."""

from __future__ import annotations

from typing import Final

import numpy as np
import shapely

from spatial_udfs.entity_table import Geometries

# Decimetres: finer than any screen shows, and half the size of the same numbers as decimals.
UNITS_PER_METRE: Final = 10

Parts = list[list[int]]


def encode(geometries: Geometries, origin: tuple[float, float]) -> list[Parts]:
    """For each geometry its parts (points, lines, rings), each ``x, y, dx, dy, dx, dy …``."""
    parts, owners = shapely.get_parts(geometries, return_index=True)
    encoded: list[Parts] = [[] for _ in geometries]
    areas = shapely.get_dimensions(parts) == 2
    # One way round for shells and the other for holes: the page fills overlapping areas as one.
    oriented = shapely.orient_polygons(parts[areas])
    rings, ring_owners = shapely.get_rings(oriented, return_index=True)
    _encode_paths(encoded, parts[~areas], owners[~areas], origin)
    _encode_paths(encoded, rings, owners[areas][ring_owners], origin)
    return encoded


def _encode_paths(
    encoded: list[Parts],
    paths: Geometries,
    owners: np.ndarray[tuple[int], np.dtype[np.int64]],
    origin: tuple[float, float],
) -> None:
    if not len(paths):
        return
    coordinates, path_of = shapely.get_coordinates(paths, return_index=True)
    units = np.rint((coordinates - np.array(origin)) * UNITS_PER_METRE).astype(np.int64)
    steps = np.diff(units, axis=0, prepend=units[:1])
    starts = np.flatnonzero(np.diff(path_of, prepend=-1))
    steps[starts] = units[starts]
    for owner, path in zip(owners, np.split(steps, starts[1:]), strict=True):
        encoded[owner].append(path.ravel().tolist())


def dimensions(geometries: Geometries) -> list[int]:
    """0 for points, 1 for lines, 2 for areas."""
    return [int(dimension) for dimension in shapely.get_dimensions(geometries)]
