"""Runs a rebuild from the sources to the switch, or a rollback, which imports nothing.

Every complete step is noted in the record. A killed rebuild leaves a record without an outcome; the
next rebuild of the same version goes on after its last complete step.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from rebuild.record import (
    COMPLETE,
    IMPORT,
    REBUILD,
    ROLLBACK,
    RebuildRecord,
    RebuildRecords,
)
from rebuild.request import NOTHING_IN_FORCE, RebuildReport, RebuildRequest
from rebuild.steps import RebuildSteps
from redis_link.connection.client import RedisClient, connect
from redis_link.generation.generation_store import current_generation
from redis_link.generation.repair import repair
from redis_link.registry.registry_reader import registry_coverage
from schemas.errors import WorldError
from world.imports.world_import import import_world
from world.locks import output_lock
from world.versions.store import WorldStore


def rebuild(request: RebuildRequest) -> RebuildReport:
    """Import a version, resolve all subscriptions on it, push, switch and clean up."""
    records = RebuildRecords(request.places.records)
    with (
        records.exclusive(),
        output_lock(request.places.out, "a rebuild"),
        closing(connect(request.places.redis_url)) as client,
        _no_collecting(),
    ):
        if request.full:
            repair(client, request.say)
        started = time.monotonic()
        imported = import_world(
            list(request.sources), request.places.world,
            progress=request.progress, **request.import_options,
        )  # fmt: skip
        version = imported.facts.version
        made = "is new" if imported.created else "has the same sources"
        request.say(f"world version {version} {made}: {imported.facts.entity_count:,} entities")
        if imported.extent is not None:
            request.say(f"version {version}: {imported.extent}")
        for warning in imported.warnings:
            request.say(f"warning: {warning}")
        known = not imported.created and _was_rebuilt(records, version)
        if request.if_changed and known and _serves(client):
            return RebuildReport(
                None, version, None, f"the sources are those of version {version}: nothing to do"
            )
        record = _begin(records, REBUILD, version, full=request.full)
        record.note(
            IMPORT, time.monotonic() - started,
            created=imported.created, entities=imported.facts.entity_count,
            problems=sum(imported.facts.problem_counts.values()),
        )  # fmt: skip
        return RebuildSteps(request, records, record, client, imported).go()


def rollback(request: RebuildRequest, version: int | None) -> RebuildReport:
    """Go back to an earlier version, by default the one before the version in force."""
    places = request.places
    store, records = WorldStore(places.world), RebuildRecords(places.records)
    with closing(connect(places.redis_url)) as client:
        # Also before the locks, which make folders.
        _version_to_roll_back_to(store, client, version)
        with records.exclusive(), output_lock(places.out, "a rebuild"), _no_collecting():
            wanted = _version_to_roll_back_to(store, client, version)
            record = _begin(records, ROLLBACK, wanted, full=request.full)
            return RebuildSteps(request, records, record, client).go()


@contextmanager
def _no_collecting() -> Iterator[None]:
    """Switch the garbage collector off: it would search a million objects that stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _was_rebuilt(records: RebuildRecords, version: int) -> bool:
    """Return whether a rebuild of the version is complete; a later rollback stays in force."""
    return any(
        record.outcome == COMPLETE and record.kind == REBUILD and record.version == version
        for record in records.all()
    )


def _serves(client: RedisClient) -> bool:
    """Return whether a generation of this registry is in force: Redis may have been emptied."""
    current = current_generation(client)
    return current is not None and current.coverage.registry == registry_coverage(client).registry


def _version_to_roll_back_to(store: WorldStore, client: RedisClient, version: int | None) -> int:
    """Return the wanted version, or the one before that in force; it exists."""
    wanted = _version_before(store, client) if version is None else version
    return store.facts_of(wanted).version


def _version_before(store: WorldStore, client: RedisClient) -> int:
    current = current_generation(client)
    if current is None:
        raise WorldError(NOTHING_IN_FORCE)
    earlier = [facts.version for facts in store.versions() if facts.version < current.version]
    if not earlier:
        raise WorldError(f"world {store.path} has no version before {current.version}")
    return earlier[-1]


def _begin(records: RebuildRecords, kind: str, version: int, *, full: bool) -> RebuildRecord:
    left = None if full else records.unfinished(kind, version)
    return records.begin(kind, version) if left is None else left
