"""Shows what a rebuild would change, and the versions that there are, without changing anything."""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from rebuild.base import resolved_base
from rebuild.exact_workers import ExactWorkers, WorldPlace
from rebuild.record import COMPARE, PUSH, RebuildRecords
from rebuild.registered_sets import RegisteredSets, read_registered
from rebuild.request import RebuildRequest
from rebuild.resolve import plan_all, plan_of, resolve_by_plan
from rebuild.set_changes import SetChanges
from redis_link.connection.client import RedisClient, connect
from redis_link.generation.generation_store import (
    SubscriptionChanges,
    all_generations,
    current_generation,
    current_number,
)
from redis_link.sets.pair_arrays import Int64s
from schemas.generation import GenerationFacts, GenerationState
from spatial_udfs.incremental.world_changes import WorldChanges
from world.imports.world_import import import_world
from world.snapshot import load_snapshot
from world.versions.changes import compare_entities
from world.versions.store import WorldStore
from world.versions.version_tables import VersionFacts


@dataclass(frozen=True, slots=True, eq=False)
class RebuildPreview:
    """What a rebuild would change; ``against`` is None where there is no version yet."""

    against: int | None
    entities: int
    changes: WorldChanges | None
    subscriptions: int
    # None where no rebuild has resolved the subscriptions yet.
    by_subscription: SubscriptionChanges | None
    # References of registered subscriptions that the new version does not have.
    vanishing: Int64s


def preview(request: RebuildRequest) -> RebuildPreview:
    """Import into a temporary folder, resolve there, and compare."""
    places = request.places
    store = WorldStore(places.world)
    with (
        tempfile.TemporaryDirectory(prefix="spaps-preview-") as folder,
        closing(connect(places.redis_url)) as client,
    ):
        world = str(Path(folder) / "world")
        imported = import_world(
            list(request.sources), world, progress=request.progress, **request.import_options
        )
        against = _version_in_force(store, current_generation(client))
        registered = read_registered(client)
        changes = None
        if against is not None:
            new_rows = WorldStore(world).entities(imported.facts.version)
            same_crs = against.srid == imported.facts.srid
            changes = compare_entities(store.entities(against.version), new_rows, same_crs=same_crs)
        place = WorldPlace(
            world, imported.facts.version, load_snapshot(world, imported.facts.version)
        )
        return RebuildPreview(
            against=None if against is None else against.version,
            entities=imported.facts.entity_count,
            changes=changes,
            subscriptions=len(registered.sub_ids),
            by_subscription=_by_subscription(request, registered, against, changes, place),
            vanishing=_vanishing(registered, changes),
        )


def _version_in_force(store: WorldStore, current: GenerationFacts | None) -> VersionFacts | None:
    """Return the version in force, or the newest where none is."""
    wanted = None if current is None else current.version
    versions = store.versions()
    for facts in versions:
        if facts.version == wanted:
            return facts
    return versions[-1] if versions else None


def _by_subscription(
    request: RebuildRequest,
    registered: RegisteredSets,
    against: VersionFacts | None,
    changes: WorldChanges | None,
    place: WorldPlace,
) -> SubscriptionChanges | None:
    store = WorldStore(request.places.world)
    if against is None:
        return None
    base = resolved_base(
        RebuildRecords(request.places.records), store, registered.coverage.registry,
        against.version,
    )  # fmt: skip
    if base is None or base.version != against.version:
        return None
    plan = plan_all(registered)
    if not request.full:
        plan = plan_of(registered, base.result, changes, place)
    result = resolve_by_plan(
        registered, plan, place, ExactWorkers(request.workers),
        lambda done, total: request.progress("resolving", done, total),
    )  # fmt: skip
    return SetChanges(base.result, result).by_subscription()


def _vanishing(registered: RegisteredSets, changes: WorldChanges | None) -> Int64s:
    if changes is None:
        return np.empty(0, np.int64)
    refs = [ref for each in registered.neighborhoods if each is not None for ref in each.refs]
    return np.intersect1d(np.array(refs, np.int64), changes.removed)


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """A version; ``changes`` is None where no rebuild has compared it with the one before.

    ``generation`` is the last one that was made for it, even if it is removed.
    """

    version: int
    created_at: datetime
    entities: int
    changes: dict[str, int] | None
    generation: int | None
    in_force: bool


def listed_versions(
    store: WorldStore, records: RebuildRecords, client: RedisClient | None
) -> list[ListedVersion]:
    """Return all versions, oldest first; without a client none of them is in force."""
    changes: dict[int, dict[str, int]] = {}
    generations: dict[int, int] = {}
    for record in records.all():
        if COMPARE in record.steps:
            changes[record.version] = record.steps[COMPARE]["changes"]
        if PUSH in record.steps:
            generations[record.version] = record.steps[PUSH]["generation"]
    current = None if client is None else current_number(client)
    in_force = None
    for facts in [] if client is None else all_generations(client):
        if facts.state is GenerationState.COMPLETE:
            generations[facts.version] = facts.generation
            in_force = facts.version if facts.generation == current else in_force
    return [
        ListedVersion(
            version=facts.version,
            created_at=facts.created_at,
            entities=facts.entity_count,
            changes=changes.get(facts.version),
            generation=generations.get(facts.version),
            in_force=facts.version == in_force,
        )
        for facts in store.versions()
    ]
