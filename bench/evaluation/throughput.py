"""Throughput against publish rate: each system is driven until its latency leaves the plateau."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from statistics import median
from typing import Any, Final

from bench.evaluation.compared.servers import RedisSystem, Servers
from bench.evaluation.compared.systems import (
    AMQTT,
    BATCHED,
    DATABASE,
    LIGHT,
    REDIS,
    REDIS_COLD,
    NeighborhoodSystem,
    System,
)
from bench.evaluation.load.open_loop import OpenLoop
from bench.evaluation.load.run import Run
from bench.evaluation.sizes import Sizes
from bench.evaluation.workload import DisjointWorkload, Messages
from testing.knee import sweep

WARM_UP_SHARE: Final = 0.2
# Messages before the measurement, so that caches hold what is published.
WARM_UP_RATE: Final = 20_000.0
# In-database nothing is remembered, and amqtt would not keep up.
WITHOUT_WARM_UP: Final = (DATABASE, BATCHED, AMQTT)
# Different entities for the cold cache, which remembers 200,000 of them: none comes again in time.
COLD_MESSAGES: Final = 4
Say = Callable[[str], None]
Row = dict[str, Any]


def measure_throughput(servers: Servers, sizes: Sizes, say: Say) -> Row:
    """Return the runs and the knee of every system. All run at the same time and take turns."""
    workload = DisjointWorkload(*sizes.throughput)
    runs: dict[str, list[Run]] = {}
    knees: dict[str, list[Row]] = {}
    with ExitStack() as stack:
        driven: list[tuple[str, OpenLoop, Messages, float]] = []
        for name in sizes.systems:
            say(f"throughput: {name}: subscribing")
            system = stack.enter_context(servers.system(name, LIGHT if name == AMQTT else workload))
            driven += _driven(system, workload, sizes, stack)
        for turn in range(sizes.rounds):
            for name, loop, messages, warm_up in driven:
                if warm_up:
                    loop.run(messages, warm_up, len(messages) / warm_up)
                found, knee = sweep(
                    lambda rate, loop=loop, messages=messages: loop.run(  # type: ignore[misc]
                        messages, rate, sizes.sweep_seconds,
                        warm_up=WARM_UP_SHARE * sizes.sweep_seconds,
                    ).run,
                    sizes.rates, sizes.refinements,
                )  # fmt: skip
                runs.setdefault(name, []).extend(found)
                knees.setdefault(name, []).append(asdict(knee))
                rates = f"knee {knee.rate:,.0f}, held {knee.held_rate:,.0f} a second"
                say(f"throughput, round {turn + 1}: {name}: {rates}")
    return {
        "subscriptions": workload.subscriptions, "members": workload.size,
        "runs": {name: [run_row(run) for run in found] for name, found in runs.items()},
        "knees": knees,
        "knee": {name: median(one["rate"] for one in found) for name, found in knees.items()},
        "is_least": {name: any(one["is_least"] for one in each) for name, each in knees.items()},
        "held": {name: median(one["held_rate"] for one in each) for name, each in knees.items()},
        "held_is_least": {
            name: any(one["held_is_least"] for one in each) for name, each in knees.items()
        },
    }  # fmt: skip


def _driven(
    system: System, workload: DisjointWorkload, sizes: Sizes, stack: ExitStack
) -> list[tuple[str, OpenLoop, Messages, float]]:
    """Return what is swept with a system; Redis twice, with a warm and a cold cache."""
    work = LIGHT if system.name == AMQTT else workload
    loop = system.open_loop(work)
    stack.callback(loop.close)
    if isinstance(system, RedisSystem):
        system.push(work)
    messages = system.messages(work, work.published(sizes.messages, 1))
    loop.probe(messages)
    warm_up = 0.0 if system.name in WITHOUT_WARM_UP else WARM_UP_RATE
    driven = [(system.name, loop, messages, warm_up)]
    if system.name == REDIS and isinstance(system, NeighborhoodSystem):
        cold = system.messages(work, work.published(COLD_MESSAGES * sizes.messages, 2))
        driven.append((REDIS_COLD, loop, cold, 0.0))
    return driven


def run_row(run: Run) -> Row:
    """Return a run as a row of the results."""
    row = asdict(run)
    del row["add_ms"]
    return {
        **{name: _rounded(value) for name, value in row.items()},
        "generator_is_limit": run.generator_is_limit, "is_complete": run.is_complete,
        "microseconds": _rounded(run.microseconds),
    }  # fmt: skip


def _rounded(value: object) -> object:
    """Round a number; JSON has no infinity."""
    if not isinstance(value, float):
        return value
    return round(value, 4) if math.isfinite(value) else None
