"""Resolves the registered neighborhoods on a version, starting from an earlier result if it can.

Members that no change can affect are taken over. Some are changed in place. The rest is resolved by
the exact resolver, in this process or in several.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from rebuild.base import ResolvedBase
from rebuild.bulk_engine import Engine
from rebuild.exact_workers import ExactWorkers, WorldPlace
from rebuild.record import RebuildRecord
from rebuild.registered_sets import RegisteredSets
from rebuild.request import RebuildRequest
from schemas.language.neighborhood import Neighborhood
from spatial_udfs.entity_table import Bools
from spatial_udfs.incremental.affected_sets import affected_sets
from spatial_udfs.incremental.changed_members import changed_members
from spatial_udfs.incremental.changed_world import ChangedWorld
from spatial_udfs.incremental.in_place import in_place, with_places
from spatial_udfs.incremental.member_rows import MemberRows
from spatial_udfs.incremental.world_changes import WorldChanges
from world.imports.world_import import ImportReport
from world.memberships.membership_table import write_memberships
from world.memberships.resolved_sets import ResolvedSets
from world.snapshot import load_snapshot
from world.versions.store import WorldStore

# The members, and how they were found, for the record.
Found = tuple[ResolvedSets, dict[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class MemberResolver:
    """Resolves the members of one rebuild and writes them to Delta and beside its record."""

    request: RebuildRequest
    record: RebuildRecord
    store: WorldStore
    imported: ImportReport | None
    changes_since: Callable[[int], WorldChanges]

    def resolve(self, registered: RegisteredSets, base: ResolvedBase | None) -> Found:
        """Resolve what the changes since ``base`` can affect, or everything."""
        if base is not None and registered.coverage.registry != base.registry:
            base = None  # the registry was replaced while it was read
        world, version = self.request.places.world, self.record.version
        made = None if self.imported is None else self.imported.snapshot()
        place = WorldPlace(world, version, made or load_snapshot(world, version))
        plan = plan_all(registered)
        if base is not None:
            plan = plan_of(registered, base.result, self.changes_since(base.version), place)
        return self._by_plan(registered, plan, place, base)

    def _by_plan(
        self,
        registered: RegisteredSets,
        plan: ResolvePlan,
        place: WorldPlace,
        base: ResolvedBase | None,
    ) -> Found:
        request, count = self.request, int(plan.to_resolve.sum())
        origin = "" if base is None else f", the others taken over from version {base.version}"
        request.say(f"resolving {count:,} of {len(registered):,} neighborhoods{origin}")
        result = resolve_by_plan(
            registered, plan, place, ExactWorkers(request.workers),
            lambda done, total: request.progress("resolving", done, total),
        )  # fmt: skip
        request.progress("writing memberships", 0, None)
        with ThreadPoolExecutor(1, "memberships") as thread:
            writing = thread.submit(
                write_memberships, request.places.out, self.record.version, result, self.record.run
            )
            result.save(self.record.folder)
            rows, commit = writing.result()
        return result, {
            "engine": Engine.EXACT.value, "resolved": count,
            "base": None if base is None else base.version, "rows": rows, "commit": commit,
        }  # fmt: skip


# When more of the world is different, few members stay, and resolving everything is faster.
MOST_TOUCHED: Final = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class ResolvePlan:
    """The sets to resolve; of the others their rows, and whether a reference exists."""

    to_resolve: Bools
    taken_rows: MemberRows
    taken_resolved: Bools


def plan_of(
    registered: RegisteredSets,
    base: ResolvedSets | None,
    changes: WorldChanges | None,
    place: WorldPlace,
) -> ResolvePlan:
    """Return what the changes leave as it was; without a base everything is to be resolved."""
    if base is None or changes is None:
        return plan_all(registered)
    neighborhoods = registered.neighborhoods
    numbers = {name: number for number, name in enumerate(registered.hashes)}
    # The last place is for neighborhoods without subscriptions now.
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
    is_little = _is_little(changes, place)
    if not is_little:
        # Another CRS moves every entity: there places may stand for something else.
        usable &= ~with_places(neighborhoods)
    chosen = in_place(neighborhoods, usable & is_little)
    others = usable & ~chosen.sets
    rows = old.where(others[old.sets])
    affected = affected_sets(neighborhoods, rows, changes, place.table, others)
    rows = rows.where(~affected[rows.sets])
    there = resolved[:elsewhere]
    if chosen.sets.any():
        world = ChangedWorld(changes, place.table)
        changed = changed_members(neighborhoods, old, chosen, world)
        rows = MemberRows.joined([rows, changed])
        there = np.where(
            chosen.sets, registered.with_a_reference(place.table.peids, place.table.srid), there
        )
    return ResolvePlan(~usable | affected, rows, there)


def _shows_references(neighborhood: Neighborhood) -> bool:
    """Return whether every stage starts from visible ones: then visible members say everything."""
    return all(
        number == 0 or neighborhood.visible[number - 1]
        for stage in neighborhood.written_out()
        for number in stage.ref_stages
    )


def _is_little(changes: WorldChanges, place: WorldPlace) -> bool:
    return len(changes.touched()) <= MOST_TOUCHED * len(place.table)


def plan_all(registered: RegisteredSets) -> ResolvePlan:
    """Return the plan that takes nothing over."""
    everything = np.ones(len(registered), np.bool_)
    return ResolvePlan(everything, MemberRows.joined([]), everything)


def resolve_by_plan(
    registered: RegisteredSets,
    plan: ResolvePlan,
    place: WorldPlace,
    workers: ExactWorkers,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> ResolvedSets:
    """Resolve the sets that the plan names, and join them with those that are taken over."""
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
