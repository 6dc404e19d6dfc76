"""The keys and names of the entities of a world version, and the references that are made of them.

In memory the keys are one Arrow array of strings, which takes the bytes of the keys and four more
for each. Nothing is kept for a version in which each key is the decimal notation of the peid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.entity import number_of_key
from schemas.errors import DescriptorError
from schemas.language.descriptor_json import check_size
from schemas.language.neighborhood import Neighborhood, References
from schemas.language.references import quoted
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


def positions_of_keys(table: EntityTable, keys: Sequence[str]) -> dict[str, int]:
    """Return the position of each of the keys that exist, in one pass over the table."""
    if table.keys is None:
        found = {key: _position_of_number(table, key) for key in keys}
        return {key: position for key, position in found.items() if position is not None}
    there = pc.is_in(table.keys, value_set=pa.array(sorted(set(keys)), pa.string()))
    positions = np.flatnonzero(there.to_numpy(zero_copy_only=False)).tolist()
    return {key_at(table, position): position for position in positions}


def peids_of_keys(table: EntityTable, keys: Sequence[str]) -> dict[str, int]:
    """Return the peids of those of the keys that exist."""
    found = positions_of_keys(table, keys)
    return {key: int(table.peids[position]) for key, position in found.items()}


def _position_of_number(table: EntityTable, key: str) -> int | None:
    peid = number_of_key(key)
    if peid is None:
        return None
    positions, _ = table.positions_of(np.array([peid], np.int64))
    return int(positions[0]) if len(positions) else None


# So many entities with the same name an error lists.
LISTED: Final = 5
_LONGEST: Final = 60


class BoundNeighborhood(NamedTuple):
    """A neighborhood without keys and names, and those of them that the version does not have."""

    neighborhood: Neighborhood
    unknown: References


class NamedEntity(NamedTuple):
    """One of several entities with the same name."""

    peid: int
    key: str
    category: str


class NamedPositions:
    """Where a world version has the keys and names of some neighborhoods, found in one pass."""

    def __init__(self, table: EntityTable, neighborhoods: Iterable[Neighborhood]) -> None:
        keys: dict[str, None] = {}
        names: dict[str, None] = {}
        for each in neighborhoods:
            keys.update(dict.fromkeys(each.keys))
            names.update(dict.fromkeys(each.names))
        self.keys = positions_of_keys(table, [*keys]) if keys else {}
        self.names = _positions_of_names(table, [*names])


def bound_to(
    neighborhood: Neighborhood, table: EntityTable, known: NamedPositions | None = None
) -> BoundNeighborhood:
    """Return the neighborhood with peids; DescriptorError for a name of several entities.

    It keeps nothing of a key or a name that no entity has: the caller reports these. ``known`` are
    those of several neighborhoods, this one among them.
    """
    if not neighborhood.keys and not neighborhood.names:
        return BoundNeighborhood(neighborhood, References())
    known = known or NamedPositions(table, [neighborhood])
    positions, named = known.keys, known.names
    for name in neighborhood.names:
        if len(found := named.get(name, ())) > 1:
            first = [_entity(table, position) for position in found[:LISTED]]
            raise ambiguous_name(name, len(found), first)
    there = [positions[key] for key in neighborhood.keys if key in positions]
    there += [named[name][0] for name in neighborhood.names if name in named]
    peids = dict.fromkeys([*neighborhood.refs, *table.peids[there].tolist()])
    bound = replace(neighborhood, refs=tuple(peids), keys=(), names=())
    check_size(bound)
    unknown = References(
        keys=tuple(key for key in neighborhood.keys if key not in positions),
        names=tuple(name for name in neighborhood.names if name not in named),
    )
    return BoundNeighborhood(bound, unknown)


def ambiguous_name(name: str, count: int, first: Iterable[NamedEntity]) -> DescriptorError:
    """Return the error for a name that ``count`` entities have; it lists the first of them."""
    listed = [
        f"{one.peid} (key {_short(one.key)}, {_short(one.category)})"
        for one in list(first)[:LISTED]
    ]
    more = [f"{count - len(listed)} more"] if count > len(listed) else []
    return DescriptorError(
        f"{count} entities have the name {quoted(_short(name))}: {', '.join(listed + more)}; "
        "allowed: a name of one entity, or the peid or the key of one of these",
        1,
    )


def _positions_of_names(table: EntityTable, names: Sequence[str]) -> dict[str, list[int]]:
    """Return the positions of the entities with each of the names that exist, ascending."""
    if not names:
        return {}
    if len(names) == 1:
        found = np.flatnonzero(table.names == names[0])
        return {names[0]: found.tolist()} if len(found) else {}
    written = pa.array(table.names, pa.string())
    there = pc.is_in(written, value_set=pa.array(names, pa.string()))
    by_name: dict[str, list[int]] = {}
    for position in np.flatnonzero(there.to_numpy(zero_copy_only=False)).tolist():
        by_name.setdefault(table.names[position], []).append(position)
    return {name: by_name[name] for name in names if name in by_name}


def _entity(table: EntityTable, position: int) -> NamedEntity:
    return NamedEntity(
        int(table.peids[position]), key_at(table, position), table.categories_at(position)[0]
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
