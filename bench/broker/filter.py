"""The filter alone, inside one process: its time, and the time to add a subscription.

    python -m bench.broker.filter > figures.json

Run by ``bench.broker.beside_peers``, pinned to one core. The broker's core is given subscriptions
with neighborhoods that share no entity, so each publish matches one. The filter's time is that from
topic and peid, as they stand in a packet, to the session that gets the message, the timer's own
cost included, for 100,000 entities drawn at random from all neighborhoods: at the first look at
each, and when they come again.
A subscription is added by SUBSCRIBE, and is there with SUBACK; its members are known before.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from bench.broker import scene
from bench.broker.filled_core import FilledCore
from broker.filter.memberships import SlotOwner

# Subscriptions and members of each. The last has 20 million pairs, in 300 MB.
BY_SUBSCRIPTIONS: Final = tuple((count, 200) for count in (100, 1_000, 10_000, 100_000))
# The same two million pairs in few and in many subscriptions.
EQUAL_PAIRS: Final = ((1_000, 2_000), (100_000, 20))
BY_MEMBERS: Final = tuple((200, size) for size in (100, 500, 2_000, 5_000, 20_000))
CHURNS: Final = (0, 10, 100)
LOOK_UPS: Final = 20_000
REPEATS: Final = 3
CHURN_SECONDS: Final = 1.0
ADDED_WITHOUT_CHURN: Final = 25
CHUNK: Final = 100


@dataclass(frozen=True)
class FilterPoint:
    """Microseconds and milliseconds at one point of an axis; ``add_ms`` is by churn."""

    subscriptions: int
    members: int
    median_us: float
    p99_us: float
    first_us: float
    redis_median_us: float
    redis_p99_us: float
    add_ms: dict[int, float]


def filter_times(filled: FilledCore) -> tuple[float, float, float]:
    """Return microseconds: median and p99 for entities that come again, and median of first looks.

    The former two are medians of the repeats.
    """
    topic = scene.ONE_MATCH.topic.encode()
    filled.core.routes.of(topic)
    rng = np.random.default_rng(scene.SEED + 2)
    published = filled.published.tolist()
    clock, look_up = time.perf_counter_ns, filled.memberships.look_up
    routes = filled.core.routes.by_topic
    rounds, end = [], len(topic)
    for turn in range(REPEATS + 1):
        times = []
        peids = published if turn == 0 else rng.choice(published, LOOK_UPS).tolist()
        for packet in [topic + str(peid).encode() for peid in peids]:
            receiver = None
            began = clock()
            # As in broker.core.publish.fast_publish.
            route = routes[packet[:end]]
            slots = look_up(int(packet[end:]))
            if type(slots) is SlotOwner and slots.home in route.spatial:
                receiver = slots.session
            times.append(clock() - began)
            assert receiver is not None
        times.sort()
        rounds.append((times[len(times) // 2] / 1e3, times[len(times) * 99 // 100] / 1e3))
    (first, _), *again = rounds
    medians, highest = zip(*again, strict=True)
    return statistics.median(medians), statistics.median(highest), first


def add_time(filled: FilledCore, churn: int, size: int) -> float:
    """Return the median milliseconds from SUBSCRIBE to SUBACK while messages run and others change.

    A change takes one of the added subscriptions out and puts another in its place.
    """
    client = filled.connect(f"churn{churn}")
    publisher = filled.connect(f"publisher{churn}")
    rng = np.random.default_rng(scene.SEED + 3)
    topic, peids = scene.ONE_MATCH.topic, rng.choice(filled.peids, CHUNK).tolist()
    chunk = b"".join(
        scene.publish(topic, scene.MQTT_5, scene.user_property("peid", str(peid))) for peid in peids
    )
    times: list[float] = []
    began, done = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < CHURN_SECONDS:
        if churn == 0 and len(times) == ADDED_WITHOUT_CHURN:
            break
        filled.core.receive(publisher, chunk)
        filled.settle()
        filled.core.tick()
        if churn and done > passed * churn:
            continue
        done += 1
        # From the same world, and in part the same entities.
        members = np.unique(rng.integers(scene.LOWEST_PEID, scene.HIGHEST_PEID, size))
        members[: size // 4] = rng.choice(filled.peids, size // 4, replace=False)
        members = np.unique(members)
        start = time.perf_counter()
        filled.subscribe(client, done % 8 + 1 if churn else done, members)
        times.append(time.perf_counter() - start)
    filled.core.connection_lost(client)
    filled.core.connection_lost(publisher)
    return 1e3 * statistics.median(times)


def point(subscriptions: int, members: int) -> FilterPoint:
    """Measure everything at one point."""
    filled = FilledCore(subscriptions, members, in_redis=True)
    redis = filter_times(filled)[:2]
    del filled
    gc.collect()
    filled = FilledCore(subscriptions, members, in_redis=False)
    memory = filter_times(filled)
    added = {churn: add_time(filled, churn, members) for churn in CHURNS}
    return FilterPoint(subscriptions, members, *memory, *redis, added)


def main() -> None:
    """Print the points of both axes as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--at", type=int, nargs=2, help="one point: subscriptions, members of each")
    options = parser.parse_args()
    logging.disable()
    gc.freeze()
    if options.at:
        print(json.dumps(asdict(point(*options.at))))
        return
    figures: dict[str, list[dict[str, object]]] = {}
    axes: dict[str, Sequence[tuple[int, int]]] = {
        "subscriptions": BY_SUBSCRIPTIONS, "members": BY_MEMBERS,
    }  # fmt: skip
    for name, points in axes.items():
        figures[name] = []
        for subscriptions, members in points:
            print(f"filter: {subscriptions:,} x {members:,}", file=sys.stderr, flush=True)
            figures[name].append(asdict(point(subscriptions, members)))
            gc.collect()
    figures["equal_pairs"] = []
    for subscriptions, members in EQUAL_PAIRS:
        median_us, p99_us, first_us = filter_times(
            FilledCore(subscriptions, members, in_redis=False)
        )
        figures["equal_pairs"].append(
            {"subscriptions": subscriptions, "members": members, "median_us": median_us,
             "p99_us": p99_us, "first_us": first_us}
        )  # fmt: skip
        gc.collect()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
