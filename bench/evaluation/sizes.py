"""How large the evaluation is: as published, quick, and the smallest that runs everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.evaluation.compared.systems import (
    AMQTT,
    BATCHED,
    DATABASE,
    MEMORY,
    MOSQUITTO,
    NONE,
    REDIS,
)
from testing.knee import ladder


@dataclass(frozen=True)
class Sizes:
    """All sizes of one run; times are seconds, rates are messages a second."""

    name: str
    # A run begins no step that would end later.
    minutes: float
    # Throughput: subscriptions, members of each, rates, and how often.
    throughput: tuple[int, int]
    rates: tuple[float, ...]
    refinements: int
    rounds: int
    sweep_seconds: float
    messages: int
    # Filtering time and time to add: points (subscriptions, members), rates.
    by_subscriptions: tuple[tuple[int, int], ...]
    by_members: tuple[tuple[int, int], ...]
    fixed_rates: tuple[float, ...]
    fixed_seconds: float
    # Changes a second, and for how long.
    churns: tuple[tuple[float, float], ...]
    # The world in which neighborhoods that come and go are resolved.
    resolved_entities: int
    # The map: vehicles, publishers, rates.
    vehicles: int
    publishers: int
    map_rates: tuple[float, ...]
    map_seconds: float
    map_churn: float
    scope_churns: tuple[tuple[float, float], ...]
    systems: tuple[str, ...] = (MEMORY, REDIS, NONE, DATABASE, BATCHED, MOSQUITTO, AMQTT)


# Points with more members in all are left out: memory, or the time to set up, is too much.
MOST_PAIRS: Final = {
    MOSQUITTO: 5_000_000,
    REDIS: 20_000_000,
    MEMORY: 20_000_000,
    DATABASE: 20_000_000,
    AMQTT: 5_000,
}
# What it takes to start and stop a system; for 1,000 subscriptions; for a million members.
SET_UP: Final = {
    MEMORY: (1.2, 0.35, 1.5),
    REDIS: (1.6, 0.6, 4.5),
    NONE: (1.2, 0.1, 0.0),
    DATABASE: (1.6, 0.35, 3.0),
    BATCHED: (1.6, 0.35, 3.0),
    MOSQUITTO: (0.6, 0.1, 8.0),
    AMQTT: (1.0, 0.5, 0.0),
}


def set_up_seconds(name: str, subscriptions: int, pairs: int) -> float:
    """Return what it is expected to take until a system has its subscriptions."""
    start, thousand, million = SET_UP[name]
    return start + thousand * subscriptions / 1_000 + million * pairs / 1_000_000


FULL: Final = Sizes(
    name="full", minutes=43.0,
    throughput=(1_000, 2_000), rates=tuple(ladder(1_000, 2_048_000, 2.0)), refinements=3, rounds=1,
    sweep_seconds=1.5, messages=60_000,
    by_subscriptions=((100, 50), (1_000, 50), (10_000, 50), (100_000, 50)),
    by_members=((1_000, 100), (1_000, 500), (1_000, 2_000), (1_000, 5_000), (1_000, 20_000)),
    fixed_rates=(1_000, 100_000), fixed_seconds=2.0, churns=((10, 3.5), (100, 1.5)),
    resolved_entities=50_000,
    vehicles=1_000, publishers=592, map_rates=(2_000, 10_000, 50_000),
    map_seconds=5.0, map_churn=100,
    scope_churns=((10, 3.5), (20, 2.5), (50, 2.5), (100, 2.5)),
)  # fmt: skip
QUICK: Final = Sizes(
    name="quick", minutes=8.0,
    throughput=(1_000, 500), rates=tuple(ladder(1_000, 1_024_000, 4.0)), refinements=1, rounds=1,
    sweep_seconds=0.4, messages=30_000,
    by_subscriptions=((100, 50), (1_000, 50)), by_members=((200, 100), (200, 2_000)),
    fixed_rates=(1_000, 100_000), fixed_seconds=0.8, churns=((10, 1.2), (100, 0.4)),
    resolved_entities=20_000,
    vehicles=500, publishers=592, map_rates=(2_000, 50_000), map_seconds=1.5, map_churn=100,
    scope_churns=((10, 1.2), (100, 0.4)),
)  # fmt: skip
SMALLEST: Final = Sizes(
    name="smallest", minutes=60.0,
    throughput=(10, 20), rates=(500.0, 1_000.0), refinements=0, rounds=1,
    sweep_seconds=0.2, messages=200,
    by_subscriptions=((10, 5), (20, 5)), by_members=((10, 5), (10, 20)),
    fixed_rates=(500,), fixed_seconds=0.2, churns=((20, 0.3),), resolved_entities=1_000,
    vehicles=100, publishers=5, map_rates=(500,), map_seconds=0.5, map_churn=20,
    scope_churns=((20, 0.3),),
)  # fmt: skip
SIZES: Final = {one.name: one for one in (FULL, QUICK, SMALLEST)}
