"""Finds entities of a world version by key or peid, and tells what they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schemas import entity
from spatial_udfs.entity_keys import key_at, position_of_key, positions_of_keys
from spatial_udfs.entity_table import EntityTable
from world.snapshot import entity_table
from world.versions.store import WorldStore

COLUMNS = (entity.PEID, entity.CATEGORIES, entity.NAME, entity.KEY)


@dataclass(frozen=True, slots=True)
class EntityFacts:
    """What a person is told about an entity."""

    peid: int
    key: str
    name: str | None
    categories: tuple[str, ...]


class EntityLookup:
    """The entities of one version; ``table`` is a snapshot, whose geometries are not used.

    One key is found in about a millisecond for a city; ``peids_of`` finds many in one pass.
    """

    def __init__(self, table: EntityTable) -> None:
        self.table = table

    def peid_of(self, key: str) -> int | None:
        """Return the peid of the entity with this key; None if there is none."""
        position = position_of_key(self.table, key)
        return None if position is None else int(self.table.peids[position])

    def peids_of(self, keys: Sequence[str]) -> dict[str, int]:
        """Return the peids of those of the keys that exist."""
        found = positions_of_keys(self.table, keys)
        return {key: int(self.table.peids[position]) for key, position in found.items()}

    def facts_of(self, peid: int) -> EntityFacts | None:
        """Return key, name and categories of an entity; None if there is none."""
        positions, _ = self.table.positions_of(np.array([peid], np.int64))
        return self.facts_at(int(positions[0])) if len(positions) else None

    def facts_at(self, position: int) -> EntityFacts:
        """Return the facts of the entity at a position of the table."""
        return EntityFacts(
            peid=int(self.table.peids[position]),
            key=key_at(self.table, position),
            name=self.table.names[position],
            categories=self.table.categories_at(position),
        )


def open_lookup(world: str, version: int | None = None) -> EntityLookup:
    """Return the lookup of a version (None: the newest) without reading its geometries."""
    store = WorldStore(world)
    facts = store.facts_of(version)
    rows = store.entities(facts.version, COLUMNS)
    return EntityLookup(entity_table(rows, facts, np.full(rows.num_rows, None, object)))
