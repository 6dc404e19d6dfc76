"""Throughput against publish rate: each system is driven until its latency leaves the plateau."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from bench.broker.connection import LoadError
from bench.evaluation.compared.servers import RedisSystem, Servers
from bench.evaluation.compared.systems import (
    AMQTT,
    LIGHT,
    MEMORY,
    MEMORY_COLD,
    NOTHING_REMEMBERED,
    REDIS,
    REDIS_COLD,
)
from bench.evaluation.load.open_loop import OpenLoop
from bench.evaluation.load.run import Run
from bench.evaluation.plan import Row, Step
from bench.evaluation.sizes import Sizes, set_up_seconds
from bench.evaluation.workload import DisjointWorkload, Messages
from testing.knee import sweep

EXPERIMENT: Final = "throughput"
WARM_UP_SHARE: Final = 0.2
# Messages before the measurement, so that caches hold what is published.
WARM_UP_RATE: Final = 40_000.0
# Different entities for cold caches, which remember up to 200,000: none comes again in time.
COLD_MESSAGES: Final = 250_000
COLD: Final = {MEMORY: MEMORY_COLD, REDIS: REDIS_COLD}
# Runs of a sweep beside those of the ladder, and what one costs beside its seconds: repetitions of
# rates that fail, and what is under way at their end.
FURTHER_RUNS: Final = 4
DRAIN_SECONDS: Final = 0.2


def throughput_steps(servers: Servers, sizes: Sizes, turn: int) -> Iterator[Step]:
    """Yield a step for each system; each turn starts all systems anew."""
    workload = DisjointWorkload(*sizes.throughput)
    for name in sizes.systems:
        runs = len(sizes.rates) + 2 * sizes.refinements + FURTHER_RUNS
        seconds = runs * (sizes.sweep_seconds + DRAIN_SECONDS) * (2 if name in COLD else 1)
        # A system that is full early climbs fewer steps.
        seconds *= 0.6 if name in NOTHING_REMEMBERED else 1.0
        seconds += set_up_seconds(name, workload.subscriptions, workload.pairs)
        measure = partial(_sweep, servers, name, sizes, turn)
        yield Step(EXPERIMENT, f"round {turn}: {name}", seconds, measure)


def _sweep(servers: Servers, name: str, sizes: Sizes, turn: int) -> Row:
    """Return the sweep of a system, and a second one with cold caches if it has caches."""
    work = LIGHT if name == AMQTT else DisjointWorkload(*sizes.throughput)
    found: list[Row] = []
    with servers.system(name, work) as system, system.open_loop(work) as loop:
        if isinstance(system, RedisSystem):
            system.push(work)
        messages = system.messages(work, work.published(sizes.messages, 1))
        loop.probe(messages)
        if name not in NOTHING_REMEMBERED:
            loop.run(messages, WARM_UP_RATE, len(messages) / WARM_UP_RATE)
        found.append({"system": name, "round": turn, **_swept(loop, messages, sizes)})
        if name in COLD:
            cold = system.messages(work, work.published(COLD_MESSAGES, 2))
            found.append({"system": COLD[name], "round": turn, **_swept(loop, cold, sizes)})
    return {"sweeps": found}


def _swept(loop: OpenLoop, messages: Messages, sizes: Sizes) -> Row:
    warm_up = WARM_UP_SHARE * sizes.sweep_seconds
    runs, knee = sweep(
        lambda rate: loop.run(messages, rate, sizes.sweep_seconds, warm_up=warm_up).run,
        sizes.rates, sizes.refinements,
    )  # fmt: skip
    if not math.isfinite(knee.plateau_ms):
        raise LoadError("no message arrived at any rate")
    return {"knee": asdict(knee), "runs": [run_row(run) for run in runs]}


def run_row(run: Run) -> Row:
    """Return a run as a row of the results."""
    row: dict[str, Any] = asdict(run)
    del row["add_ms"]
    return {
        **{name: rounded(value) for name, value in row.items()},
        "generator_is_limit": run.generator_is_limit, "is_complete": run.is_complete,
        "microseconds": rounded(run.microseconds),
    }  # fmt: skip


def rounded(value: object) -> object:
    """Round a number; JSON has no infinity."""
    if not isinstance(value, float):
        return value
    return round(value, 4) if math.isfinite(value) else None
