"""The members of every registered neighborhood on a version: taken over, or resolved exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from rebuild.exact_workers import SetResolver, WorldPlace
from rebuild.registered_sets import RegisteredSets
from schemas.language.neighborhood import Neighborhood
from spatial_udfs.incremental.affected_sets import affected_sets
from spatial_udfs.incremental.changed_members import changed_members
from spatial_udfs.incremental.changed_stages import in_place
from spatial_udfs.incremental.changed_world import ChangedWorld
from spatial_udfs.incremental.member_rows import Bools, MemberRows
from spatial_udfs.incremental.world_changes import WorldChanges
from world.memberships.resolved_sets import ResolvedSets

# Where more of the world is different, hardly a member stays, and resolving anew is quicker.
MOST_TOUCHED: Final = 0.2


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
    neighborhoods = registered.neighborhoods
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
    usable = known[:elsewhere] & np.array(
        [each is not None and (base.whole or _shows_references(each)) for each in neighborhoods],
        np.bool_,
    )
    chosen = in_place(neighborhoods, usable & _is_little(changes, place))
    others = usable & ~chosen.sets
    rows = old.where(others[old.sets])
    affected = affected_sets(neighborhoods, rows, changes, place.table, others)
    rows = rows.where(~affected[rows.sets])
    there = resolved[:elsewhere]
    if chosen.sets.any():
        world = ChangedWorld(changes, place.table)
        changed = changed_members(neighborhoods, old, chosen, world)
        rows = MemberRows.joined([rows, changed])
        there = np.where(chosen.sets, registered.with_a_reference(place.table.peids), there)
    return ResolvePlan(~usable | affected, rows, there)


def _shows_references(neighborhood: Neighborhood) -> bool:
    """Whether every stage starts from visible ones: then visible members tell everything."""
    return all(
        number == 0 or neighborhood.visible[number - 1]
        for stage in neighborhood.written_out()
        for number in stage.ref_stages
    )


def _is_little(changes: WorldChanges, place: WorldPlace) -> bool:
    return len(changes.touched()) <= MOST_TOUCHED * len(place.table)


def resolve_all(registered: RegisteredSets) -> ResolvePlan:
    """The plan that takes nothing over."""
    everything = np.ones(len(registered), np.bool_)
    return ResolvePlan(everything, MemberRows.joined([]), everything)


def carry_out(
    registered: RegisteredSets,
    plan: ResolvePlan,
    place: WorldPlace,
    workers: SetResolver,
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
        descriptors=registered.descriptors,
        resolved=resolved,
        rows=MemberRows.joined([plan.taken_rows, part.rows]),
        sub_ids=registered.sub_ids,
        set_of=registered.set_of,
    )
