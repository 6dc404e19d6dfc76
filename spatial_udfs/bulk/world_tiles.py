"""Tiles: the plane cut into boxes in which about equally many entities lie.

Tiles do not overlap and leave no gap: a point belongs to the tile whose west and south side it
may lie on. The outer ones reach to infinity. Where entities lie close together, tiles are small.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

# Enough that a tile is worth its tree, and few enough that a task can hold several tiles.
ENTITIES_PER_TILE: Final = 4_000
# Enough to cut thousands of tiles; it fits into the memory of a driver for any world.
LARGEST_SAMPLE: Final = 50_000

# West, south, east, north of each tile, one row each.
Boxes = NDArray[np.float64]
Places = NDArray[np.float64]


def cut_into_tiles(places: Places, entities: int) -> Boxes:
    """Return tiles for a world of so many entities; ``places`` (x, y) are a sample of them."""
    most = max(len(places) * ENTITIES_PER_TILE // max(entities, 1), 1)
    waiting = [(np.array([-np.inf, -np.inf, np.inf, np.inf]), places)]
    boxes = []
    while waiting:
        box, inside = waiting.pop()
        cut = _halves(box, inside) if len(inside) > most else []
        waiting.extend(cut)
        if not cut:
            boxes.append(box)
    return np.array(boxes)


def _halves(box: Boxes, inside: Places) -> list[tuple[Boxes, Places]]:
    """Return both halves of a box, cut across its longer side; none if all lies in one place."""
    lowest, highest = inside.min(axis=0), inside.max(axis=0)
    axis = int(np.argmax(highest - lowest))
    if lowest[axis] == highest[axis]:
        return []
    along = inside[:, axis]
    cut = np.median(along)
    if not (along < cut).any():
        # Half of all and more lie at the edge.
        cut = along[along > lowest[axis]].min()
    lower, upper = box.copy(), box.copy()
    lower[2 + axis] = upper[axis] = cut
    return [(lower, inside[along < cut]), (upper, inside[along >= cut])]
