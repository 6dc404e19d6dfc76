"""The members of every registered neighborhood on a version: taken over, or resolved exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jobs.affected_sets import affected_sets
from jobs.exact_workers import ExactWorkers, WorldPlace
from jobs.registered_sets import RegisteredSets
from jobs.resolved_sets import Bools, MemberRows, ResolvedSets
from world.changes import WorldChanges


@dataclass(frozen=True, slots=True, eq=False)
class ResolvePlan:
    """Which sets are taken over, with their rows and whether they had a reference."""

    to_resolve: Bools
    taken_rows: MemberRows
    taken_resolved: Bools


def plan_of(
    registered: RegisteredSets,
    base: ResolvedSets | None,
    changes: WorldChanges | None,
    place: WorldPlace,
) -> ResolvePlan:
    """What a change leaves as it was; everything is resolved where there is nothing before."""
    if base is None or changes is None:
        return resolve_all(registered)
    numbers = {name: number for number, name in enumerate(registered.hashes)}
    # The last place is for neighborhoods that nobody has any more.
    elsewhere = len(registered)
    mapped = np.array([numbers.get(name, elsewhere) for name in base.hashes], np.int64)
    known = np.zeros(elsewhere + 1, np.bool_)
    known[mapped] = True
    resolved = np.ones(elsewhere + 1, np.bool_)
    resolved[mapped] = base.resolved
    old = base.rows.numbered(mapped) if len(mapped) else base.rows
    old = old.where(old.sets != elsewhere)
    affected = affected_sets(registered.neighborhoods, old, changes, place.table, whole=base.whole)
    to_resolve = affected | ~known[:elsewhere]
    return ResolvePlan(to_resolve, old.where(~to_resolve[old.sets]), resolved[:elsewhere])


def resolve_all(registered: RegisteredSets) -> ResolvePlan:
    """The plan that takes nothing over."""
    everything = np.ones(len(registered), np.bool_)
    return ResolvePlan(everything, MemberRows.joined([]), everything)


def carry_out(
    registered: RegisteredSets,
    plan: ResolvePlan,
    place: WorldPlace,
    workers: ExactWorkers,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> ResolvedSets:
    """Resolve what the plan says, and put both parts together."""
    wanted = [
        (number, neighborhood)
        for number in np.flatnonzero(plan.to_resolve).tolist()
        if (neighborhood := registered.neighborhoods[number]) is not None
    ]
    part = workers.resolve(place, wanted, progress)
    resolved = plan.taken_resolved.copy()
    resolved[plan.to_resolve] = True
    resolved[[*part.unresolved, *registered.faults]] = False
    return ResolvedSets(
        hashes=registered.hashes,
        resolved=resolved,
        rows=MemberRows.joined([plan.taken_rows, part.rows]),
        sub_ids=registered.sub_ids,
        set_of=registered.set_of,
    )
