"""Named neighborhoods with their members in the world in force, and their users."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import current_generation
from redis_link.registry.named_neighborhoods import all_names, find_name, users_of
from schemas.errors import GenerationError, NoReferenceError, SettingsError, WorldError
from schemas.generation import GenerationFacts
from schemas.language.explain import neighborhood_warnings
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import notation, read_neighborhood
from schemas.named_neighborhood import NamedNeighborhood
from spatial_udfs.entity_table import EntityTable, Int64s
from spatial_udfs.exact.exact_resolver import ExactResolver, resolve_named
from spatial_udfs.place_geometries import check_places
from world.snapshot import load_snapshot
from world.versions.store import WorldStore


class ResolvedName(NamedTuple):
    """A neighborhood as it is stored under its name; ``members`` is None without a world."""

    neighborhood: Neighborhood
    members: int | None
    warnings: list[str]


class WorldOfNames:
    """The world version in which members are counted: that in force, or else the newest.

    Without ``is_needed`` there may be no world, as where a command is given a Redis alone.
    """

    def __init__(self, world: str, client: RedisClient, *, is_needed: bool) -> None:
        self._world = world
        self.version: int | None = None
        try:
            store = WorldStore(world)
            newest = store.latest().version
        except WorldError:
            if is_needed:
                raise
            return
        facts = _in_force(client)
        if facts is None:
            self.version = newest
        elif facts.world in {"", store.world_id()}:
            self.version = facts.version
        elif is_needed:
            # The brokers of this Redis serve another world.
            self.version = newest

    @property
    def where(self) -> str:
        """The world version in which members are counted, in words."""
        return f"in world version {self.version}"

    def resolve(self, neighborhood: Neighborhood) -> ResolvedName:
        """Return the neighborhood with peids for keys and names, its members, and warnings.

        NoReferenceError when none of its references exists. Without a world there are no members.
        """
        if self.version is None:
            if neighborhood.keys or neighborhood.names:
                raise SettingsError(
                    "references by key and by name become peids in a world: give --world DIR"
                )
            check_places(neighborhood)
            return ResolvedName(neighborhood, None, list(neighborhood_warnings(neighborhood)))
        resolver, table = self._resolver, self._table
        found = resolve_named(resolver, table, neighborhood)
        members = len(found.resolution.peids())
        return ResolvedName(found.neighborhood, members, found.warnings(resolver, table))

    def members_of(self, neighborhood: Neighborhood) -> Int64s | None:
        """Return the members, none when no reference exists; None without a world."""
        if self.version is None:
            return None
        try:
            return self._resolver.resolve(neighborhood).peids()
        except NoReferenceError:
            return np.empty(0, np.int64)

    @cached_property
    def _table(self) -> EntityTable:
        return load_snapshot(self._world, self.version)

    @cached_property
    def _resolver(self) -> ExactResolver:
        return ExactResolver(self._table)


def _in_force(client: RedisClient) -> GenerationFacts | None:
    try:
        return current_generation(client)
    except GenerationError:
        return None


@dataclass(frozen=True, slots=True, eq=False)
class NamedMembers:
    """A named neighborhood; ``peids`` is None where no world can be read."""

    definition: NamedNeighborhood
    neighborhood: Neighborhood
    users: int
    peids: Int64s | None
    version: int | None

    @property
    def name(self) -> str:
        """The name."""
        return self.definition.name

    @property
    def notation(self) -> str:
        """The neighborhood as people read it."""
        return notation(self.neighborhood)

    @property
    def where(self) -> str:
        """The world version of the members, in words."""
        return f"in world version {self.version}"

    @property
    def changed_at(self) -> str:
        """When the name was given this neighborhood."""
        return datetime.fromtimestamp(self.definition.changed_at, UTC).isoformat(" ", "seconds")

    def as_json(self, *, with_peids: bool) -> dict[str, Any]:
        """Return it for JSON; peids are decimal strings."""
        descriptor: dict[str, Any] = json.loads(self.definition.descriptor)
        refs = descriptor["refs"]
        descriptor["refs"] = [str(one) if isinstance(one, int) else one for one in refs]
        found: dict[str, Any] = {
            "name": self.name,
            "members": None if self.peids is None else len(self.peids),
            "users": self.users,
            "version": self.version,
            "changedAt": self.changed_at,
            "descriptor": descriptor,
        }
        if with_peids:
            found["peids"] = None if self.peids is None else [str(one) for one in self.peids]
        return found


def named_members(
    client: RedisClient, world: str, name: str | None = None, *, world_is_needed: bool
) -> list[NamedMembers]:
    """Return all named neighborhoods by name, or one of them."""
    definitions = all_names(client) if name is None else [find_name(client, name)]
    place = WorldOfNames(world, client, is_needed=world_is_needed)
    found = []
    for one in definitions:
        neighborhood = read_neighborhood(one.descriptor)
        peids = place.members_of(neighborhood)
        users = users_of(client, one.name)
        found.append(NamedMembers(one, neighborhood, users, peids, place.version))
    return found
