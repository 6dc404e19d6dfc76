"""Which entities the page draws in grey, and shapes as lists of whole numbers for its script."""

from __future__ import annotations

from typing import Final

import numpy as np
import shapely
from numpy.typing import NDArray

from spatial_udfs.entity_table import EntityTable, Geometries, Positions

# Decimetres: finer than any screen shows, and half the size of the same numbers as decimals.
UNITS_PER_METRE: Final = 10
# A browser on a phone still moves this many smoothly, and the file stays below 10 MB.
MOST_GREY: Final = 30_000
# How much of the result's own width is shown around it.
MARGIN: Final = 0.4
LEAST_MARGIN_METRES: Final = 250.0

Parts = list[list[int]]


def encode(geometries: Geometries, origin: tuple[float, float]) -> list[Parts]:
    """Return for each geometry its points, lines and rings, each as ``x, y, dx, dy, dx, dy …``."""
    parts, owners = shapely.get_parts(geometries, return_index=True)
    encoded: list[Parts] = [[] for _ in geometries]
    areas = shapely.get_dimensions(parts) == 2
    # Shells and holes have opposite orientation, because the page fills overlapping areas as one.
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
    """Return 0 for points, 1 for lines, 2 for areas."""
    return [int(dimension) for dimension in shapely.get_dimensions(geometries)]


def grey_positions(
    table: EntityTable, drawn: Positions, most: int = MOST_GREY
) -> tuple[Positions, str]:
    """Return positions for the background, and a sentence about those left out ('' if none).

    A small world is drawn whole, of a large one what is around the result.
    """
    is_grey = np.ones(len(table), bool)
    is_grey[drawn] = False
    grey = np.flatnonzero(is_grey)
    if len(grey) <= most:
        return grey.astype(np.int32), ""
    boxes = shapely.bounds(table.geometries)
    near = grey[_overlap(boxes[grey], _around(boxes[drawn] if len(drawn) else boxes))]
    if len(near) <= most:
        said = f"Of {len(grey):,} other entities the page shows the {len(near):,} around the result"
        return near.astype(np.int32), f"{said}."
    # At this scale small entities are invisible: the largest ones make the picture.
    size = np.maximum(boxes[near, 2] - boxes[near, 0], boxes[near, 3] - boxes[near, 1])
    largest = near[np.sort(np.argsort(-size, kind="stable")[:most])]
    said = f"Of {len(grey):,} other entities the page shows the {most:,} largest around the result"
    return largest.astype(np.int32), f"{said}."


def _around(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    west, south = np.nanmin(boxes[:, :2], axis=0)
    east, north = np.nanmax(boxes[:, 2:], axis=0)
    margin = max(LEAST_MARGIN_METRES, MARGIN * max(east - west, north - south))
    return np.array([west - margin, south - margin, east + margin, north + margin])


def _overlap(boxes: NDArray[np.float64], window: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray(
        (boxes[:, 0] <= window[2])
        & (boxes[:, 2] >= window[0])
        & (boxes[:, 1] <= window[3])
        & (boxes[:, 3] >= window[1])
    )
