"""The plan of a soak, and its worlds: editions of a city, neighborhoods in it, and their members.

Every edition is the same city with other edits, so entities vanish and come back, move and move
back, from each to the next.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from schemas.errors import NoReferenceError
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import read_neighborhood
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver
from testing.city_edits import edited_city
from testing.neighborhood_patterns import peids_of
from testing.synthetic_city import synthetic_city
from testing.world_writers import write_geoparquet
from tests.oracle.definition import entities_of, resolve_by_definition

# Category of the first reference, and the neighborhood of one reference and another.
SHAPES = (
    ("zone/quarter", "({{{0}}},{{road/#}},C)"),
    ("zone/block/residential", "({{{0}}},{{road/#}},I) • 2(Prev,{{road/#}},T)"),
    ("transport/stop/bus", "({{{0}}},{{shop/#}},DW250)"),
    ("transport/parking", "({{{0},{1}}},{{transport/#}},DW300)"),
    ("road/minor/residential", "({{{0}}},{{road/#}},T) • 2(Anc,{{road/#}},T)"),
    ("zone/district", "({{{0}}},{{shop/food/+}},C) • (Anc,{{road/#}},DW60) visible 01"),
    ("road/major/secondary", "({{{0},{1}}},{{road/minor/#}},T OR X)"),
    ("shop/bakery", "({{{0}}},{{transport/parking}},NOT DW500)"),
    ("zone/block/industrial", "({{{0}}},{{road/#}},B) • (Anc,{{transport/#}},DW120)"),
)


@dataclass(frozen=True)
class Ground:
    """Edition n, counted from 1, is world version n, if each is imported once and in order."""

    editions: tuple[EntityTable, ...]
    neighborhoods: tuple[Neighborhood, ...]
    # By neighborhood and edition; None: no reference exists there.
    members: tuple[tuple[frozenset[int] | None, ...], ...]

    def holds(self, neighborhood: int, version: int, peid: int) -> bool:
        """Whether the entity is a member in a world version."""
        found = self.members[neighborhood][version - 1]
        return found is not None and peid in found

    def is_resolvable(self, neighborhood: int, version: int) -> bool:
        """Whether any reference exists in a world version."""
        return self.members[neighborhood][version - 1] is not None

    @cached_property
    def descriptors(self) -> tuple[str, ...]:
        """The neighborhoods as they travel."""
        return tuple(one.to_json() for one in self.neighborhoods)

    @cached_property
    def peids(self) -> tuple[list[int], list[int], list[int]]:
        """To publish about: whose membership changes, members, and any (some exist nowhere)."""
        changing: set[int] = set()
        inside: set[int] = set()
        for editions in self.members:
            sets = [one or frozenset() for one in editions]
            inside |= frozenset().union(*sets)
            changing |= frozenset().union(*sets) - sets[0].intersection(*sets[1:])
        everything = {peid for table in self.editions for peid in table.peids.tolist()}
        return sorted(changing), sorted(inside), [*sorted(everything), 1, 2, 3]

    def draw_peid(self, dice: random.Random) -> int:
        """Mostly those on which the editions differ: there a wrong generation shows."""
        [pool] = dice.choices(self.peids, (5, 3, 2))
        return dice.choice(pool)

    def write_sources(self, folder: Path) -> list[Path]:
        """One GeoParquet file for each edition."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"edition-{at}.parquet" for at in range(1, len(self.editions) + 1)]
        for table, path in zip(self.editions, paths, strict=True):
            write_geoparquet(table, path)
        return paths

    def check_by_definition(self, dice: random.Random, count: int) -> int:
        """Resolve some of them by the oracle, which shares no code; the number that agreed."""
        for _ in range(count):
            number = dice.randrange(len(self.neighborhoods))
            edition = dice.randrange(len(self.editions))
            neighborhood = self.neighborhoods[number]
            entities = entities_of(self.editions[edition])
            stages, _ = resolve_by_definition(entities, neighborhood)
            visible = neighborhood.visible or (True,) * len(stages)
            found = {
                peid for is_in, one in zip(visible, stages, strict=True) if is_in for peid in one
            }
            if found != set(self.members[number][edition] or ()):
                raise AssertionError(f"edition {edition + 1}, {self.descriptors[number]}")
        return count


def make_ground(entities: int, editions: int, neighborhoods: int, share: float) -> Ground:
    """The same for the same arguments; ``share`` of the entities differ from the first edition."""
    city = synthetic_city(entities)
    tables = [city, *(edited_city(city, share, seed) for seed in range(1, editions))]
    dice = random.Random(neighborhoods)  # noqa: S311 - no secret, and the same each time
    chosen: dict[str, Neighborhood] = {}
    while len(chosen) < neighborhoods:
        category, shape = SHAPES[len(chosen) % len(SHAPES)]
        if category not in city.category_names:
            category = "road/minor/residential"
        pool = peids_of(city, category).tolist()
        text = shape.format(dice.choice(pool), dice.choice(pool))
        # A small city has few zones, and each counts once.
        chosen.setdefault(text, read_neighborhood(text))
        if len(pool) < neighborhoods:
            road = dice.choice(peids_of(city, "road/minor/residential").tolist())
            text = f"({{{road}}},{{road/#}},DW{dice.randrange(40, 300)})"
            chosen.setdefault(text, read_neighborhood(text))
    wanted = tuple(chosen.values())[:neighborhoods]
    resolvers = [ExactResolver(table) for table in tables]
    members = tuple(tuple(_members(one, each) for one in resolvers) for each in wanted)
    return Ground(tuple(tables), wanted, members)


def _members(resolver: ExactResolver, neighborhood: Neighborhood) -> frozenset[int] | None:
    try:
        return frozenset(resolver.resolve(neighborhood).peids().tolist())
    except NoReferenceError:
        return None


@dataclass(frozen=True)
class Plan:
    """One soak."""

    publishers: int
    # Messages a second of all publishers.
    rate: float
    subscribers: int
    # Neighborhoods of one subscriber at most.
    nsids: int
    changes_a_second: float
    cuts_a_minute: float
    # Editions, each after the first one rebuild, beside which something more happens.
    redis_restart_at: int
    broker_kill_at: int
    rollback_at: int | None
    # How likely an attempt to rebuild is killed; the first one for this edition surely is.
    rebuild_kills: float
    sure_kill_at: int
    grace_seconds: float
    pause_seconds: float
    # How the broker filters before and after it is killed.
    memberships: tuple[str, str] = ("memory", "redis")
    seed: int = 1
