"""A city after some time: entities added, removed, moved and recategorised, all over it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import shapely

from spatial_udfs.entity_table import EntityTable

# Far enough that a street leaves its corners.
MOVED_METRES = 40.0


def edited_city(
    table: EntityTable, share: float, seed: int, *, in_one_place: bool = False
) -> EntityTable:
    """Return the city with a quarter of the share changed in each of four ways, evenly all over it.

    That is harder than a real change, which has its places: hardly a zone stays untouched.
    ``in_one_place``: every second entity changes around one that is drawn.
    """
    rng = np.random.default_rng(1_000 + seed)
    each = max(1, round(len(table) * share / 4))
    among = np.arange(len(table))
    if in_one_place:
        middle = table.geometries[rng.integers(len(table))]
        among = np.argsort(shapely.distance(middle, table.geometries))[: 8 * each]
    removed, moved, recategorised, copied = np.split(
        among[rng.choice(len(among), 4 * each, replace=False)], 4
    )
    geometries = table.geometries.copy()
    geometries[moved] = _shifted(geometries[moved])
    codes = table.category_codes.copy()
    # The first category of each becomes that of another entity.
    codes[table.category_offsets[recategorised]] = codes[table.category_offsets[copied]]
    kept = np.setdiff1d(np.arange(len(table)), removed)
    order = np.concatenate([kept, copied])
    lengths = np.diff(table.category_offsets)[order]
    places = np.repeat(table.category_offsets[order] - np.cumsum(lengths) + lengths, lengths)
    highest = int(table.peids.max())
    return replace(
        table,
        peids=np.concatenate([table.peids[kept], highest + 1 + np.arange(each)]),
        geometries=np.concatenate([geometries[kept], _shifted(geometries[copied])]),
        names=table.names[order],
        category_offsets=np.concatenate([[0], np.cumsum(lengths)]),
        category_codes=codes[places + np.arange(int(lengths.sum()))],
    )


def _shifted(geometries: np.ndarray) -> np.ndarray:
    return np.asarray(shapely.transform(geometries, lambda points: points + MOVED_METRES))
