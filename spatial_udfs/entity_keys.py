"""The keys of the entities of a world version in memory, and the search for a key.

They are one Arrow array of strings, which takes the bytes of the keys and four more for each.
Nothing is kept for a version in which each key is the decimal notation of the peid.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.entity_keys import number_of_key
from spatial_udfs.entity_table import EntityTable, Int64s


def stored_keys(keys: pa.Array, peids: Int64s) -> pa.Array | None:
    """Return the keys to keep in memory: without nulls, or None if all are decimal peids."""
    decimals = pa.array(peids).cast(pa.string())
    keys = pc.coalesce(keys, decimals)
    return None if keys.equals(decimals) else keys


def key_at(table: EntityTable, position: int) -> str:
    """Return the key of one entity."""
    if table.keys is None:
        return str(table.peids[position])
    return str(table.keys[position].as_py())


def position_of_key(table: EntityTable, key: str) -> int | None:
    """Return the position of the entity with a key; None if there is none.

    It takes about a millisecond in a city. ``positions_of_keys`` is for many keys.
    """
    if table.keys is None:
        return _position_of_number(table, key)
    position = pc.index(table.keys, key).as_py()
    return None if position < 0 else int(position)


def positions_of_keys(table: EntityTable, keys: Sequence[str]) -> dict[str, int]:
    """Return the position of each of the keys that exist, in one pass over the table."""
    if table.keys is None:
        found = {key: _position_of_number(table, key) for key in keys}
        return {key: position for key, position in found.items() if position is not None}
    there = pc.is_in(table.keys, value_set=pa.array(sorted(set(keys)), pa.string()))
    positions = np.flatnonzero(there.to_numpy(zero_copy_only=False)).tolist()
    return {key_at(table, position): position for position in positions}


def _position_of_number(table: EntityTable, key: str) -> int | None:
    peid = number_of_key(key)
    if peid is None:
        return None
    positions, _ = table.positions_of(np.array([peid], np.int64))
    return int(positions[0]) if len(positions) else None
