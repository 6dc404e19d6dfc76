"""A city: vehicles with a neighborhood of one stage each, sensors that publish, churn.

Vehicles stand on road segments. Segments are ranked by the traffic of their kind of road, and the
reference of a vehicle is drawn by Zipf's law over these ranks. Vehicles that come and go have
references of their own, so that each must be resolved. Messages are about any entity.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np

from bench.evaluation.compared.servers import RedisSystem, Servers
from bench.evaluation.compared.systems import DATABASE, MEMORY, MOSQUITTO, REDIS
from bench.evaluation.filtering import added
from bench.evaluation.load.run import Timed
from bench.evaluation.plan import Row, Step
from bench.evaluation.sizes import Sizes, set_up_seconds
from bench.evaluation.throughput import run_row
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
EXPERIMENT: Final = "city"
# Seconds of the rolling median, and between two of its points.
WINDOW: Final = 0.4
STEP: Final = 0.1
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


def city_steps(servers: Servers, city: Callable[[], CityWorkload], sizes: Sizes) -> Iterator[Step]:
    """Yield a step for each system at each rate. Each begins with cold caches."""
    for rate in sizes.map_rates:
        for name in COMPARED:
            if name in sizes.systems:
                seconds = set_up_seconds(name, 3 * sizes.vehicles, 0) + 1.5 * sizes.map_seconds
                measure = partial(_measure, servers, city, name, rate, sizes)
                yield Step(EXPERIMENT, f"{rate:,.0f} a second: {name}", seconds + 1, measure)


def _measure(
    servers: Servers, make_city: Callable[[], CityWorkload], name: str, rate: float, sizes: Sizes
) -> Row:
    city = make_city()
    published = city.published(max(sizes.messages, 1_000), 3)
    with servers.system(name, city) as system, system.open_loop(city, sizes.publishers) as loop:
        if isinstance(system, RedisSystem):
            system.push(city)
        messages = system.messages(city, published)
        loop.probe(messages)
        with system.changes(city, sizes.map_churn, 0) as changes:
            timed = loop.run(
                messages, rate, sizes.map_seconds, changes=changes, backlog=BACKLOG_SECONDS
            )
    found = {
        "system": name, **run_row(timed.run), "rolling": rolling(timed), "adding": added(timed.run),
    }  # fmt: skip
    sizes_of = [len(city.members(number)) for number in range(city.subscriptions)]
    scene = {
        "entities": len(city.table), "vehicles": city.subscriptions, "metres": METRES,
        "publishers": sizes.publishers, "churn": sizes.map_churn, "seconds": sizes.map_seconds,
        "members": float(np.median(sizes_of)), "copies": float(published.copies.mean()),
        "window": WINDOW,
    }  # fmt: skip
    return {"city": [found], "city_scene": scene}


def rolling(timed: Timed) -> list[tuple[float, float]]:
    """Return seconds, and the median of the messages that were due in the window around them."""
    if not len(timed.due):
        return []
    order = np.argsort(timed.due, kind="stable")
    due, took = timed.due[order], timed.took_ms[order]
    last = float(due[-1])
    width = min(WINDOW, last)
    found = []
    for middle in np.arange(width / 2, last - width / 2 + 1e-9, STEP):
        low, high = np.searchsorted(due, (middle - width / 2, middle + width / 2))
        if high > low:
            median = float(np.median(took[low:high]))
            found.append((round(float(middle), 3), round(median, 4)))
    return found
