"""Runs a rebuild from the sources to the switch, or a rollback, which imports nothing.

Every complete step is noted in the record. A killed rebuild leaves a record without an outcome; the
next rebuild of the same version goes on after its last complete step.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from rebuild.bulk_engine import Engine, EngineOnDemand, engine_of_sources, engine_of_world
from rebuild.bulk_steps import BulkSteps
from rebuild.exact_steps import ExactSteps
from rebuild.record import (
    COMPLETE,
    IMPORT,
    REBUILD,
    RESOLVE,
    ROLLBACK,
    RebuildRecord,
    RebuildRecords,
)
from rebuild.request import NOTHING_IN_FORCE, RebuildReport, RebuildRequest
from rebuild.steps import RebuildSteps
from redis_link.connection.client import RedisClient, connect
from redis_link.generation.generation_store import current_generation
from redis_link.generation.repair import repair
from redis_link.registry.registry_reader import registration_count, registry_coverage
from schemas.errors import WorldError
from schemas.world_places import local_folder
from world.imports.world_import import ImportReport, import_world
from world.locks import output_lock
from world.versions.store import WorldStore


def rebuild(request: RebuildRequest) -> RebuildReport:
    """Import a version, resolve all subscriptions on it, push, switch and clean up."""
    records = RebuildRecords(request.places.records)
    with (
        records.exclusive(),
        output_lock(request.places.out, "a rebuild"),
        closing(connect(request.places.redis_url)) as client,
        closing(_bulk_engine(request)) as engine,
        _no_collecting(),
    ):
        if request.full:
            repair(client, request.say)
        started = time.monotonic()
        imported = _imported(request, engine)
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
        return _steps(request, records, record, client, engine, imported).go()


def rollback(request: RebuildRequest, version: int | None) -> RebuildReport:
    """Go back to an earlier version, by default the one before the version in force."""
    places = request.places
    store, records = WorldStore(places.world), RebuildRecords(places.records)
    with closing(connect(places.redis_url)) as client:
        # Also before the locks, which make folders.
        _version_to_roll_back_to(store, client, version)
        with (
            records.exclusive(),
            output_lock(places.out, "a rebuild"),
            closing(_bulk_engine(request)) as engine,
            _no_collecting(),
        ):
            wanted = _version_to_roll_back_to(store, client, version)
            record = _begin(records, ROLLBACK, wanted, full=request.full)
            return _steps(request, records, record, client, engine).go()


def _bulk_engine(request: RebuildRequest) -> EngineOnDemand:
    places = request.places
    return EngineOnDemand(lambda: request.bulk(places.world, places.out, request.say))


def _imported(request: RebuildRequest, engine: EngineOnDemand) -> ImportReport:
    """Import the sources here or on Spark, by their size or that of the version before."""
    versions = WorldStore(request.places.world).versions()
    entities = versions[-1].entity_count if versions else None
    choice = engine_of_sources(request.engine, entities, _bytes_of(request.sources))
    if choice.engine is Engine.SPARK:
        return engine.get().import_version(request.sources, request.import_options)
    return import_world(
        list(request.sources), request.places.world,
        progress=request.progress, **request.import_options,
    )  # fmt: skip


def _bytes_of(sources: Sequence[str]) -> int:
    """Return the size of the sources as far as they lie on this machine."""
    size = 0
    for source in sources:
        place = local_folder(source)
        if place is not None and place.is_dir():
            size += sum(each.stat().st_size for each in place.rglob("*") if each.is_file())
        elif place is not None and place.exists():
            size += place.stat().st_size
    return size


def _steps(
    request: RebuildRequest,
    records: RebuildRecords,
    record: RebuildRecord,
    client: RedisClient,
    engine: EngineOnDemand,
    imported: ImportReport | None = None,
) -> RebuildSteps:
    """Return the steps for this process or for Spark, by the size of the work."""
    facts = WorldStore(request.places.world).facts_of(record.version)
    choice = engine_of_world(request.engine, facts.entity_count, _neighborhoods(records, client))
    request.say(choice.line())
    if choice.engine is Engine.SPARK:
        return BulkSteps(request, records, record, client, engine.get())
    engine.close()  # it may have imported
    return ExactSteps(request, records, record, client, imported)


def _neighborhoods(records: RebuildRecords, client: RedisClient) -> int:
    """Return how many different neighborhoods the last rebuild had, else all subscriptions."""
    for known in reversed(records.all()):
        if RESOLVE in known.steps:
            return int(known.steps[RESOLVE]["neighborhoods"])
    return registration_count(client)


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
