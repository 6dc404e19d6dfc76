"""Filtering time, and the time to add a subscription, by number and size of subscriptions."""

from __future__ import annotations

from statistics import median
from typing import Any, Final

import numpy as np

from bench.broker.connection import LoadError
from bench.evaluation.compared.servers import RedisSystem, Servers
from bench.evaluation.compared.systems import (
    DATABASE,
    MEMORY,
    MOSQUITTO,
    REDIS,
    REDIS_COLD,
    System,
)
from bench.evaluation.load.open_loop import OpenLoop
from bench.evaluation.load.run import Run
from bench.evaluation.sizes import MOST_PAIRS, Sizes
from bench.evaluation.throughput import WARM_UP_RATE, WARM_UP_SHARE, Row, Say, run_row
from bench.evaluation.workload import DisjointWorkload, Messages

COMPARED: Final = (MEMORY, REDIS, DATABASE, MOSQUITTO)
# Messages while subscriptions come and go.
CHURN_RATE: Final = 1_000.0
AXES: Final = ("subscriptions", "members")


def measure_filtering(servers: Servers, sizes: Sizes, say: Say) -> tuple[list[Row], list[Row]]:
    """Return the rows of filtering time and those of adding."""
    filtering: list[Row] = []
    adding: list[Row] = []
    points = {"subscriptions": sizes.by_subscriptions, "members": sizes.by_members}
    for axis in AXES:
        for subscriptions, members in points[axis]:
            workload = DisjointWorkload(subscriptions, members)
            for name in COMPARED:
                if name not in sizes.systems or workload.pairs > MOST_PAIRS[name]:
                    continue
                say(f"{axis}: {subscriptions:,} of {members:,} members: {name}")
                where = {"axis": axis, "subscriptions": subscriptions, "members": members}
                try:
                    filtered, changed = _measure(servers, name, workload, sizes)
                except LoadError as error:
                    # Half an hour of other figures is not lost because of one point.
                    say(f"{name} is left out: {error}")
                    continue
                filtering += [{**where, **row} for row in filtered]
                adding += [{**where, **row} for row in changed]
    return filtering, adding


def _measure(
    servers: Servers, name: str, workload: DisjointWorkload, sizes: Sizes
) -> tuple[list[Row], list[Row]]:
    with servers.system(name, workload) as system:
        loop = system.open_loop(workload)
        try:
            return _filter(system, loop, workload, sizes), _add(system, loop, workload, sizes)
        finally:
            loop.close()


def _filter(system: System, loop: OpenLoop, workload: DisjointWorkload, sizes: Sizes) -> list[Row]:
    rows: list[Row] = []
    if isinstance(system, RedisSystem):
        system.push(workload)
        cold = system.messages(workload, workload.published(sizes.messages, 2))
        loop.probe(cold)
        rate = sizes.fixed_rates[0]
        # No longer than there are entities that nobody has published about.
        seconds = min(sizes.fixed_seconds, len(cold) / rate)
        rows.append(_row(REDIS_COLD, _fixed(loop, cold, rate, seconds)))
    messages = system.messages(workload, workload.published(sizes.messages, 1))
    loop.probe(messages)
    if system.name != DATABASE:
        loop.run(messages, WARM_UP_RATE, min(len(messages) / WARM_UP_RATE, sizes.fixed_seconds))
    # The published rate is far more than the database can do.
    rates = sizes.fixed_rates[:1] if system.name == DATABASE else sizes.fixed_rates
    rows += [_row(system.name, _fixed(loop, messages, rate, sizes.fixed_seconds)) for rate in rates]
    return rows


def _fixed(loop: OpenLoop, messages: Messages, rate: float, seconds: float) -> Run:
    return loop.run(messages, rate, seconds, warm_up=WARM_UP_SHARE * seconds).run


def _row(name: str, run: Run) -> Row:
    return {"system": name, **run_row(run)}


def _add(system: System, loop: OpenLoop, workload: DisjointWorkload, sizes: Sizes) -> list[Row]:
    rows = []
    messages = system.messages(workload, workload.published(sizes.messages, 1))
    first = 0
    for churn in sizes.churns:
        changes = system.changes(workload, churn, first)
        run = loop.run(messages, CHURN_RATE, sizes.churn_seconds, changes=changes).run
        first = changes.next_number
        changes.socket.close()
        rows.append({"system": system.name, "churn": churn, **added(run)})
    return rows


def added(run: Run) -> dict[str, Any]:
    """Return how long the additions of a run took; one that never ended makes it too much."""
    times = [*run.add_ms, *([float("inf")] * run.adds_missing)]
    if not times:
        return {"added": 0, "median_ms": None, "p90_ms": None, "missing": 0}
    found = np.array(times)
    return {
        "added": len(times), "missing": run.adds_missing,
        "median_ms": _finite(median(times)),
        "p90_ms": _finite(float(np.percentile(found, 90, method="higher"))),
        "rate": run.rate, "message_median_ms": _finite(run.median_ms),
    }  # fmt: skip


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return round(value, 4) if np.isfinite(value) else None
