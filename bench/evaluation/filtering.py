"""Filtering time, and the time to add a subscription, by number and size of subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any, Final

import numpy as np

from bench.evaluation.compared.servers import RedisSystem, Servers
from bench.evaluation.compared.systems import (
    AMQTT,
    DATABASE,
    MEMORY,
    MOSQUITTO,
    NOTHING_REMEMBERED,
    REDIS,
    REDIS_COLD,
    System,
)
from bench.evaluation.load.open_loop import OpenLoop
from bench.evaluation.load.run import Run
from bench.evaluation.nearby import ResolvedWorkload
from bench.evaluation.plan import Row, Step
from bench.evaluation.sizes import MOST_PAIRS, Sizes, set_up_seconds
from bench.evaluation.throughput import WARM_UP_RATE, WARM_UP_SHARE, rounded, run_row
from bench.evaluation.workload import DisjointWorkload, Messages

EXPERIMENT: Final = "filtering"
COMPARED: Final = (MEMORY, REDIS, DATABASE, MOSQUITTO, AMQTT)
# Messages while subscriptions come and go.
CHURN_RATE: Final = 1_000.0
# What a system is given after a run that it could not follow.
IDLE_SECONDS: Final = 15.0
AXES: Final = ("subscriptions", "members")
RESOLVING: Final = (MEMORY, REDIS, DATABASE)


def filtering_steps(servers: Servers, sizes: Sizes) -> Iterator[Step]:
    """Yield a step for each system at each point; the largest points come last."""
    points = [
        (axis, DisjointWorkload(*point))
        for axis, found in zip(AXES, (sizes.by_subscriptions, sizes.by_members), strict=True)
        for point in found
    ]
    for axis, workload in sorted(points, key=lambda point: point[1].pairs):
        where = f"by {axis}, {workload.subscriptions:,} of {workload.size:,}"
        for name in COMPARED:
            if name in sizes.systems and workload.pairs <= MOST_PAIRS[name]:
                measure = partial(_measure, servers, name, axis, workload, sizes)
                seconds = _seconds(name, workload, sizes)
                yield Step(EXPERIMENT, f"{where}: {name}", seconds, measure)


def _seconds(name: str, workload: DisjointWorkload, sizes: Sizes) -> float:
    seconds = set_up_seconds(name, workload.subscriptions, workload.pairs)
    seconds += sizes.fixed_seconds + (sizes.fixed_seconds if name == REDIS else 0.0)
    if name not in NOTHING_REMEMBERED:
        seconds += sizes.fixed_seconds + sizes.messages / WARM_UP_RATE
    if name != AMQTT:
        adding = sum(seconds + 0.2 for _, seconds in sizes.churns)
        seconds += adding * (2 if name in RESOLVING else 1)
    return seconds + sizes.messages * 2e-5


def _measure(
    servers: Servers, name: str, axis: str, workload: DisjointWorkload, sizes: Sizes
) -> Row:
    where = {"axis": axis, "subscriptions": workload.subscriptions, "members": workload.size}
    with servers.system(name, workload) as system, system.open_loop(workload) as loop:
        messages = system.messages(workload, workload.published(sizes.messages, 1))
        filtering = _filter(system, loop, messages, workload, sizes)
        adding: list[Row] = []
        if name != AMQTT:
            adding += _add(system, loop, messages, workload, sizes)
        if name in RESOLVING:
            coming, found = servers.nearby.around(workload.size)
            resolved = ResolvedWorkload(workload.subscriptions, workload.size, coming=coming)
            adding += [
                {**row, "resolved_members": found}
                for row in _add(system, loop, messages, resolved, sizes)
            ]
    return {
        "filtering": [{**where, **row} for row in filtering],
        "adding": [{**where, **row} for row in adding],
    }


def _filter(
    system: System, loop: OpenLoop, messages: Messages, workload: DisjointWorkload, sizes: Sizes
) -> list[Row]:
    rows: list[Row] = []
    if isinstance(system, RedisSystem):
        system.push(workload)
        cold = system.messages(workload, workload.published(sizes.messages, 2))
        loop.probe(cold)
        rate = sizes.fixed_rates[0]
        # No longer than there are entities that nobody has published about.
        seconds = min(sizes.fixed_seconds, len(cold) / rate)
        rows.append(_row(REDIS_COLD, _fixed(loop, cold, rate, seconds)))
    loop.probe(messages)
    # What compares every message with everything cannot do the published rate.
    rates = sizes.fixed_rates[:1]
    if system.name not in NOTHING_REMEMBERED:
        rates = sizes.fixed_rates
        loop.run(messages, WARM_UP_RATE, len(messages) / WARM_UP_RATE)
    rows += [_row(system.name, _fixed(loop, messages, rate, sizes.fixed_seconds)) for rate in rates]
    return rows


def _fixed(loop: OpenLoop, messages: Messages, rate: float, seconds: float) -> Run:
    return loop.run(messages, rate, seconds, warm_up=WARM_UP_SHARE * seconds).run


def _row(name: str, run: Run) -> Row:
    return {"system": name, **run_row(run)}


def _add(
    system: System, loop: OpenLoop, messages: Messages, workload: DisjointWorkload, sizes: Sizes
) -> list[Row]:
    rows, first = [], 0
    is_resolved = isinstance(workload, ResolvedWorkload)
    for churn, seconds in sizes.churns:
        with system.changes(workload, churn, first) as changes:
            run = loop.run(messages, CHURN_RATE, seconds, changes=changes).run
            first = changes.next_number
        if run.adds_missing:
            system.wait_until_idle(IDLE_SECONDS)
        row = {"system": system.name, "churn": churn, "is_resolved": is_resolved, **added(run)}
        rows.append(row)
    return rows


def added(run: Run) -> dict[str, Any]:
    """Return how long the additions of a run took; one that never ended makes it too much."""
    times = [*run.add_ms, *([float("inf")] * run.adds_missing)]
    found = {
        "added": len(run.add_ms), "missing": run.adds_missing, "median_ms": None, "p90_ms": None,
        "rate": run.rate, "message_median_ms": rounded(run.median_ms),
        "generator_share": rounded(run.generator_share),
        "generator_is_limit": run.generator_is_limit,
    }  # fmt: skip
    if times:
        found["median_ms"] = rounded(float(median(times)))
        found["p90_ms"] = rounded(float(np.percentile(np.array(times), 90, method="higher")))
    return found
