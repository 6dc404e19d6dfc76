"""What the records of a soak say in figures: counts, switches, latencies over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from tests.soak.checker import Verdict
from tests.soak.records import Event, Records, Sighting
from tests.soak.scenario import Soak

BUCKET_SECONDS: Final = 2.0
# A message counts as one near a switch when it was due so long before or after it.
NEAR_SECONDS: Final = 1.0
# After these it takes a while until what gathered has been worked off.
OUTAGES: Final = ("Redis restarted", "broker killed")
OUTAGE_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Switch:
    """One switch: in Redis, and when the broker was seen to filter by it."""

    generation: int
    version: int
    at: float
    noticed_seconds: float
    # The broker was killed meanwhile: its start is part of the time.
    has_kill: bool


@dataclass(frozen=True)
class SoakFigures:
    """Everything that the report shows; times are seconds since the first message."""

    seconds: float
    load_averages: tuple[float, float]
    counts: dict[str, int]
    findings: list[dict[str, str]]
    events: list[dict[str, Any]]
    switches: list[Switch]
    # Milliseconds: quantiles of all deliveries, of calm ones, of those near a switch.
    latencies: dict[str, dict[str, float]]
    # (start, deliveries, p50, p99, highest) of each bucket, clients that were away left out.
    over_time: list[tuple[float, int, float, float, float]]
    # (time, megabytes of the broker, of Redis).
    memory: list[tuple[float, float, float]]


def figures_of(
    records: Records, verdict: Verdict, soak: Soak, loads: tuple[float, float], tracebacks: int
) -> SoakFigures:
    """All figures of one run."""
    start = soak.started
    due, took, away = _deliveries(records, start)
    switches = list(_switches(records, start))
    near = _near(due, [one.at for one in switches])
    outages = [one for one in records.events if one.kind in OUTAGES]
    disturbed = away.copy()
    for one in outages:
        disturbed |= (due > one.begun - start - 1) & (due < one.ended - start + OUTAGE_SECONDS)
    return SoakFigures(
        seconds=float(due.max()) if len(due) else 0.0,
        load_averages=loads,
        counts=_counts(records, verdict, soak) | {"tracebacks": tracebacks},
        findings=[asdict(one) for one in verdict.findings[:100]],
        events=[_shifted(one, start) for one in records.events],
        switches=switches,
        latencies={
            "all": _quantiles(took),
            "calm": _quantiles(took[~disturbed & ~near]),
            "near a switch": _quantiles(took[~disturbed & near]),
        },
        over_time=list(_over_time(due[~away], took[~away])),
        memory=[(at - start, broker, redis) for at, broker, redis in soak.memory],
    )


def _counts(records: Records, verdict: Verdict, soak: Soak) -> dict[str, int]:
    kinds = [event.kind for event in records.events]
    changes = records.changes
    held = sum(change.neighborhood is not None for change in changes)
    return {
        "messages": verdict.messages,
        "copies": len(records.received),
        "owed": verdict.owed,
        "delivered": verdict.delivered,
        "repeated copies": verdict.repeated_copies,
        "messages sent again": verdict.sent_again,
        "messages refused": verdict.refused,
        "messages near a switch": verdict.near_switches,
        "findings": len(verdict.findings),
        "rebuilds": kinds.count("rebuild") - 1,
        "rollbacks": kinds.count("rollback"),
        "rebuild kills": soak.rebuilder.kills,
        "broker kills": kinds.count("broker killed"),
        "redis restarts": kinds.count("Redis restarted"),
        "switches": len(records.in_broker) - 1,
        "subscribes": held,
        "unsubscribes": len(changes) - held,
        "subscribes refused": sum(change.is_refused for change in changes),
        "reconnects": len(records.reconnects),
    }


def _deliveries(records: Records, start: float) -> tuple[Any, Any, Any]:
    """When each message was due, how long until each client read it, whether that was away."""
    seen: set[tuple[str, str]] = set()
    returns: dict[str, list[float]] = defaultdict(list)
    for back in records.reconnects:
        # Whom the broker has thrown out by its death has not been away by itself.
        if not records.during("broker killed", back.at - OUTAGE_SECONDS, back.at):
            returns[back.client].append(back.at)
    due, took, away = [], [], []
    for copy in records.received:
        message = records.sent.get(copy.name)
        if message is None or (copy.name, copy.client) in seen:
            continue
        seen.add((copy.name, copy.client))
        due.append(message.due - start)
        took.append((copy.at - message.due) * 1e3)
        away.append(any(message.due <= at <= copy.at for at in returns[copy.client]))
    return np.array(due), np.array(took), np.array(away, dtype=bool)


def _switches(records: Records, start: float) -> Iterable[Switch]:
    by_number: dict[int, Sighting] = {one.generation: one for one in records.in_redis}
    for seen in records.in_broker[1:]:
        made = by_number.get(seen.generation)
        if made is None:
            continue
        # From the last look at Redis that showed the one before: rather too long than too short.
        noticed = seen.first_seen - made.may_from
        killed = records.during("broker killed", made.may_from, seen.first_seen)
        yield Switch(
            seen.generation, records.versions[seen.generation], seen.first_seen - start,
            noticed, killed,
        )  # fmt: skip


def _near(due: Any, switches: list[float]) -> Any:
    near = np.zeros(len(due), dtype=bool)
    for at in switches:
        near |= np.abs(due - at) < NEAR_SECONDS
    return near


def _quantiles(took: Any) -> dict[str, float]:
    if not len(took):
        return {"deliveries": 0, "p50": 0.0, "p99": 0.0, "highest": 0.0}
    return {
        "deliveries": len(took),
        "p50": float(np.quantile(took, 0.5)),
        "p99": float(np.quantile(took, 0.99)),
        "highest": float(took.max()),
    }


def _over_time(due: Any, took: Any) -> Iterable[tuple[float, int, float, float, float]]:
    bucket = (due // BUCKET_SECONDS).astype(int)
    for number in np.unique(bucket):
        inside = _quantiles(took[bucket == number])
        yield (
            float(number * BUCKET_SECONDS), int(inside["deliveries"]),
            inside["p50"], inside["p99"], inside["highest"],
        )  # fmt: skip


def _shifted(event: Event, start: float) -> dict[str, Any]:
    return asdict(event) | {"begun": event.begun - start, "ended": event.ended - start}
