"""A city: vehicles with a neighborhood of one stage each, sensors that publish, churn.

Vehicles stand on road segments. Segments are ranked by the traffic of their kind of road, and the
reference of a vehicle is drawn by Zipf's law over these ranks. Vehicles that come and go have
references of their own, so that each must be resolved. Messages are about any entity.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.evaluation.compared.servers import RedisSystem, Servers
from bench.evaluation.compared.systems import DATABASE, MEMORY, MOSQUITTO, REDIS
from bench.evaluation.filtering import added
from bench.evaluation.load.run import Timed
from bench.evaluation.sizes import Sizes
from bench.evaluation.throughput import Row, Say, run_row
from bench.evaluation.workload import SEED, Published
from schemas.language.descriptor_json import parse_descriptor
from spatial_udfs.entity_table import EntityTable, Int64s
from spatial_udfs.exact.exact_resolver import ExactResolver

COMPARED: Final = (MEMORY, REDIS, DATABASE, MOSQUITTO)
METRES: Final = 100
ZIPF: Final = 1.0
# Relative traffic of a road, by the last part of its category; other roads have 1.
TRAFFIC: Final = {
    "motorway": 20.0, "trunk": 15.0, "primary": 10.0, "secondary": 6.0, "tertiary": 4.0,
    "residential": 2.0,
}  # fmt: skip
WINDOWS: Final = 25
# A cold cache needs a moment; a run is not given up because of that.
BACKLOG_SECONDS: Final = 2.0

Template = Callable[[int], dict[str, Any]]


def one_stage(metres: int) -> Template:
    """Return the neighborhood: everything within so many metres of a segment."""
    return lambda reference: {
        "refs": [reference], "stages": [{"cats": ["#"], "cond": f"DW{metres}"}],
    }  # fmt: skip


def two_stages(metres: int) -> Template:
    """Return the neighborhood: roads within so many metres, then transport at these roads."""
    stages = [
        {"cats": ["road/#"], "cond": f"DW{metres}"},
        {"refStages": "Prev", "cats": ["transport/#"], "cond": "DW20"},
    ]
    return lambda reference: {"refs": [reference], "stages": stages}


@dataclass
class CityWorkload:
    """One vehicle for each client. Later vehicles, which come and go, may have other templates."""

    table: EntityTable
    subscriptions: int
    topic: str = "traffic/speed"
    changing: Template = field(default_factory=lambda: one_stage(METRES))

    def __post_init__(self) -> None:
        self._template = one_stage(METRES)
        self._resolver = ExactResolver(self.table)
        self._known: dict[str, Int64s] = {}
        self._vehicles, self._others = _references(self.table, self.subscriptions)

    def with_changes(self, template: Template) -> CityWorkload:
        """Return the same city with other neighborhoods that come and go."""
        return replace(self, changing=template)

    @property
    def clients(self) -> int:
        """The number of clients: one for each vehicle."""
        return self.subscriptions

    def reference(self, number: int) -> int:
        """Return the segment on which a vehicle stands."""
        if number < self.subscriptions:
            return int(self._vehicles[number])
        return int(self._others[(number - self.subscriptions) % len(self._others)])

    def descriptor(self, number: int) -> str:
        """Return the neighborhood of a vehicle."""
        template = self._template if number < self.subscriptions else self.changing
        return json.dumps(template(self.reference(number)), separators=(",", ":"))

    def members(self, number: int) -> Int64s:
        """Return what a vehicle's neighborhood holds."""
        return self._resolved(self.descriptor(number))

    def members_of_reference(self, reference: int) -> Int64s:
        """Return what the neighborhood of a vehicle on this segment holds."""
        return self._resolved(json.dumps(self._template(reference), separators=(",", ":")))

    def published(self, most: int, seed: int) -> Published:
        """Return messages about any entities, and how many vehicles get each."""
        held = np.concatenate([self.members(number) for number in range(self.subscriptions)])
        rng = np.random.default_rng((SEED, seed))
        peids = rng.choice(self.table.peids, most)
        holders, counts = np.unique(held, return_counts=True)
        at = np.searchsorted(holders, peids)
        at[at == len(holders)] = 0
        copies = np.where(holders[at] == peids, counts[at], 0).astype(np.int64)
        return Published(peids, np.zeros(most, np.int64), copies)

    def _resolved(self, descriptor: str) -> Int64s:
        if descriptor not in self._known:
            found = self._resolver.resolve(parse_descriptor(descriptor)).peids()
            self._known[descriptor] = np.sort(np.asarray(found, np.int64))
        return self._known[descriptor]


def _references(table: EntityTable, vehicles: int) -> tuple[Int64s, Int64s]:
    """Return segments drawn by Zipf's law over their ranks by traffic, and all in any order."""
    owners = np.repeat(np.arange(len(table)), np.diff(table.category_offsets))
    weights = np.zeros(len(table))
    for owner, code in zip(owners.tolist(), table.category_codes.tolist(), strict=True):
        first, *_, last = table.category_names[code].split("/")
        if first == "road":
            weights[owner] = max(weights[owner], TRAFFIC.get(last.removesuffix("_link"), 1.0))
    rng = np.random.default_rng(SEED)
    roads = np.flatnonzero(weights)
    ranked = roads[np.lexsort((rng.random(len(roads)), -weights[roads]))]
    chances = 1.0 / np.arange(1, len(ranked) + 1) ** ZIPF
    drawn = rng.choice(ranked, vehicles, p=chances / chances.sum())
    return table.peids[drawn], table.peids[rng.permutation(roads)]


def measure_city(servers: Servers, city: CityWorkload, sizes: Sizes, say: Say) -> Row:
    """Return a run of every system at every rate, with its median over time."""
    published = city.published(max(sizes.messages, 1_000), 3)
    rows: list[Row] = []
    for name in COMPARED:
        if name not in sizes.systems:
            continue
        say(f"city: {name}: {city.subscriptions:,} vehicles")
        with servers.system(name, city) as system:
            loop = system.open_loop(city, sizes.publishers)
            if isinstance(system, RedisSystem):
                system.push(city)
            messages = system.messages(city, published)
            loop.probe(messages)
            first = 0
            for rate in sizes.map_rates:
                changes = system.changes(city, sizes.map_churn, first)
                timed = loop.run(
                    messages, rate, sizes.map_seconds, changes=changes, backlog=BACKLOG_SECONDS
                )
                first = changes.next_number
                changes.socket.close()
                rows.append(
                    {"system": name, **run_row(timed.run), "rolling": rolling(timed),
                     "adding": added(timed.run)}
                )  # fmt: skip
            loop.close()
    sizes_of = [len(city.members(number)) for number in range(city.subscriptions)]
    return {
        "entities": len(city.table), "vehicles": city.subscriptions, "metres": METRES,
        "publishers": sizes.publishers, "churn": sizes.map_churn,
        "members": float(np.median(sizes_of)), "copies": float(published.copies.mean()),
        "rows": rows,
    }  # fmt: skip


def rolling(timed: Timed) -> list[tuple[float, float]]:
    """Return seconds and the median of the messages that were due around then."""
    if not len(timed.due):
        return []
    edges = np.linspace(0.0, float(timed.due.max()) + 1e-9, WINDOWS + 1)
    at = np.digitize(timed.due, edges) - 1
    return [
        (
            round(float(edges[n] + edges[n + 1]) / 2, 3),
            round(float(np.median(timed.took_ms[at == n])), 4),
        )
        for n in range(WINDOWS)
        if (at == n).any()
    ]


def source_of(data: Path) -> tuple[Path, str]:
    """Return the file of the city and its name; the sample world where Berlin is absent."""
    berlin = data / "berlin" / "world.parquet"
    if berlin.is_file():
        return berlin, "Berlin"
    return Path(__file__).resolve().parents[2] / "data" / "monaco.osm.pbf", "Monaco"
