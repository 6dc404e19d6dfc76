"""The members of a rebuild: taken over, changed, or resolved by the engine that fits the size."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rebuild.base import ResolvedBase
from rebuild.bulk_engine import BulkEngine
from rebuild.engine_choice import (
    MOST_ENTITIES_IN_MEMORY,
    MOST_IN_PART,
    engine_for_all,
    engine_for_some,
)
from rebuild.exact_workers import ExactWorkers, SetResolver, WorldPlace
from rebuild.record import RebuildRecord
from rebuild.registered_sets import RegisteredSets
from rebuild.request import Engine, RebuildRequest
from rebuild.resolve_plan import ResolvePlan, carry_out, plan_of, resolve_all
from spatial_udfs.incremental.world_changes import WorldChanges
from world.imports.world_import import ImportReport
from world.memberships.exact_memberships import write_memberships
from world.memberships.resolved_sets import ResolvedSets
from world.snapshot import load_snapshot
from world.versions.store import WorldStore

# The members, and for the record how they were found.
Found = tuple[ResolvedSets, dict[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Resolving:
    """One rebuild at its step of resolving; its memberships are in Delta at the end."""

    request: RebuildRequest
    record: RebuildRecord
    store: WorldStore
    imported: ImportReport | None
    changes_since: Callable[[int], WorldChanges]
    bulk: Callable[[], BulkEngine]
    # What can be done with the members while they are being written out.
    meanwhile: Callable[[ResolvedSets], None]

    def resolved(self, registered: RegisteredSets, base: ResolvedBase | None) -> Found:
        """What a change can affect, or everything; by whoever fits the size of that."""
        request, entities = self.request, self.store.facts_of(self.record.version).entity_count
        if base is not None and registered.coverage.registry != base.registry:
            base = None  # emptied and filled anew while it was read
        if base is None or entities > MOST_ENTITIES_IN_MEMORY:
            if engine_for_all(request.engine, entities, len(registered)) is Engine.SPARK:
                return self._all_by_spark(registered)
            base = None
        world, version = request.places.world, self.record.version
        made = None if self.imported is None else self.imported.snapshot()
        place = WorldPlace(world, version, made or load_snapshot(world, version))
        plan = resolve_all(registered)
        engine = Engine.EXACT
        if base is not None:
            plan = plan_of(registered, base.result, self.changes_since(base.version), place)
            count = int(plan.to_resolve.sum())
            engine = engine_for_some(request.engine, count)
            if engine is Engine.SPARK and count > MOST_IN_PART * len(registered):
                return self._all_by_spark(registered)
        return self._by_plan(registered, plan, place, engine, base)

    def _by_plan(
        self, registered: RegisteredSets, plan: ResolvePlan, place: WorldPlace, engine: Engine,
        base: ResolvedBase | None,
    ) -> Found:  # fmt: skip
        request, count = self.request, int(plan.to_resolve.sum())
        origin = "" if base is None else f", the others taken over from version {base.version}"
        request.say(f"resolving {count:,} of {len(registered):,} neighborhoods{origin}")
        workers: SetResolver = ExactWorkers(request.workers)
        if engine is Engine.SPARK:
            workers = self.bulk()
        result = carry_out(
            registered, plan, place, workers,
            lambda done, total: request.progress("resolving", done, total),
        )  # fmt: skip
        request.progress("writing memberships", 0, None)
        with ThreadPoolExecutor(1, "memberships") as thread:
            writing = thread.submit(
                write_memberships, request.places.out, self.record.version, result, self.record.run
            )
            self.meanwhile(result)
            rows, commit = writing.result()
        return result, {
            "engine": engine.value, "resolved": count,
            "base": None if base is None else base.version, "rows": rows, "commit": commit,
        }  # fmt: skip

    def _all_by_spark(self, registered: RegisteredSets) -> Found:
        version, run = self.record.version, self.record.run
        result, facts = self.bulk().resolve_all(version, registered, run)
        self.meanwhile(result)
        how = {"engine": Engine.SPARK.value, "resolved": len(registered), "base": None}
        return result, how | {"rows": facts.rows, "commit": facts.commit}
