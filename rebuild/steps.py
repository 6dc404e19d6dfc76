"""Does the steps of a rebuild after the import: compare, resolve, push and switch, clean up.

A step that the record names as complete is not done again, so a killed rebuild goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from rebuild.base import (
    ResolvedBase,
    found_in_force,
    pushed_base,
    resolved_base,
)
from rebuild.cleanup import clean_up
from rebuild.push import PushAll, push_members
from rebuild.quality import check_resolved, check_world, gate_for
from rebuild.record import (
    CLEAN,
    COMPARE,
    COMPLETE,
    FAILED,
    PUSH,
    RESOLVE,
    RebuildRecord,
    RebuildRecords,
)
from rebuild.registered_sets import RegisteredSets, read_registered
from rebuild.request import BulkEngine, Engine, RebuildReport, RebuildRequest
from rebuild.resolve import MemberResolver
from redis_link.connection.client import RedisClient
from redis_link.generation.generation_push import PushReport, PushSource
from redis_link.generation.generation_store import all_generations
from redis_link.generation.sweep import Retention
from redis_link.registry.registry_reader import registry_coverage
from schemas.errors import EXIT_NOT_CLEAN, SpapsError
from schemas.generation import RegistryCoverage
from spatial_udfs.incremental.world_changes import WorldChanges
from world.imports.world_import import ImportReport
from world.memberships.resolved_sets import ResolvedSets
from world.versions.changes import compare_versions
from world.versions.store import WorldStore

UNRESOLVED_LISTED: Final = 1_000


class RebuildSteps:
    """The steps of one rebuild or rollback to a known version."""

    def __init__(
        self,
        request: RebuildRequest,
        records: RebuildRecords,
        record: RebuildRecord,
        client: RedisClient,
        imported: ImportReport | None = None,
    ) -> None:
        """``imported`` is the version in memory, if this process has made it."""
        self._request, self._imported = request, imported
        self._records = records
        self._record = record
        self._client = client
        self._store = WorldStore(request.places.world)
        self._facts = self._store.facts_of(record.version)
        self._started_bulk: BulkEngine | None = None
        self._base: ResolvedBase | None = None
        self._changes: dict[int, WorldChanges] = {}

    def go(self) -> RebuildReport:
        """Do all steps that are not complete yet."""
        record, say = self._record, self._request.say
        if record.steps.keys() & {COMPARE, RESOLVE, PUSH}:
            say(f"{record.kind} {record.number} goes on after: {', '.join(record.steps)}")
        try:
            kept = self._kept()
            if kept is None:
                with ThreadPoolExecutor(1, "subscriptions") as thread:
                    reading = thread.submit(self._read_subscriptions)
                    self._compare()
                    self._check_world()
                    kept = self._resolve(reading.result())
            self._push(kept)
        except SpapsError as error:
            record.end(FAILED, str(error))
            raise
        finally:
            # A cluster must not wait for the grace time of the last step.
            if self._started_bulk is not None:
                self._started_bulk.close()
        return self._clean()

    def _compare(self) -> None:
        """Note what the version changed against the one before it, for people."""
        if COMPARE in self._record.steps:
            return
        started = time.monotonic()
        earlier = [f.version for f in self._store.versions() if f.version < self._record.version]
        if not earlier:
            self._record.note(COMPARE, 0.0, against=None, changes={})
            return
        counts = self._changes_since(earlier[-1]).counts()
        self._record.note(COMPARE, time.monotonic() - started, against=earlier[-1], changes=counts)
        listed = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
        self._request.say(f"against version {earlier[-1]}: {listed or 'no entity is different'}")

    def _check_world(self) -> None:
        check_world(self._request, self._record, self._store, self._client, self._changes_since)

    def _changes_since(self, version: int) -> WorldChanges:
        """Return the changes since a version; the first two steps mostly ask for the same."""
        if version not in self._changes:
            made, new = self._imported, self._record.version
            entities = made.entities() if made is not None else None
            self._changes[version] = compare_versions(self._store, version, new, entities)
        return self._changes[version]

    def _kept(self) -> ResolvedSets | None:
        """Return the members, if they are resolved already."""
        done = self._record.steps.get(RESOLVE)
        if done is None:
            return None
        # The subIds of a registry that is gone mean nothing to brokers.
        known = (self._facts.checksum, registry_coverage(self._client).registry)
        if (done["worldChecksum"], done["registry"]) != known:
            return None
        return ResolvedSets.load(self._record.folder)

    def _read_subscriptions(self) -> RegisteredSets:
        """Read the registered subscriptions, and find the earlier result to go on from."""
        registry = registry_coverage(self._client).registry
        if not self._request.full:
            version = self._record.version
            self._base = resolved_base(self._records, self._store, registry, version)
        known = None if self._base is None else self._base.known()
        registered = read_registered(self._client, known)
        self._request.say(
            f"{len(registered.sub_ids):,} subscriptions, {len(registered):,} different"
        )
        return registered

    def _resolve(self, registered: RegisteredSets) -> ResolvedSets:
        """Resolve the members, and write them to Delta and beside the record."""
        started = time.monotonic()
        resolver = MemberResolver(
            self._request, self._record, self._store, self._imported,
            self._changes_since, self._bulk,
        )  # fmt: skip
        result, how = resolver.resolve(registered, self._base)
        rows, lacking = how.pop("rows"), ~result.resolved[result.set_of]
        self._record.note(
            RESOLVE, time.monotonic() - started,
            registry=registered.coverage.registry, upTo=registered.coverage.up_to,
            worldChecksum=self._facts.checksum, subscriptions=len(registered.sub_ids),
            neighborhoods=len(registered), rows=rows, unresolvedCount=int(lacking.sum()),
            unresolved=np.sort(result.sub_ids[lacking])[:UNRESOLVED_LISTED].tolist(), **how,
        )  # fmt: skip
        self._request.say(
            f"memberships of version {self._record.version}: {rows:,} rows; "
            f"{int(lacking.sum()):,} subscriptions have no reference there"
        )
        return result

    def _bulk(self) -> BulkEngine:
        """Return the bulk engine, made at its first use: a small world needs no Java."""
        if self._started_bulk is None:
            request, places = self._request, self._request.places
            self._started_bulk = request.bulk(places.world, places.out, request.say)
        return self._started_bulk

    def _push(self, result: ResolvedSets) -> None:
        """Push the members and switch, unless this was done before a kill."""
        if self._pushed_already():
            return
        check_resolved(self._request, self._record)
        started = time.monotonic()
        report, how = self._pushed(result)
        facts = {"pairs": report.pairs, "how": how, "replaced": report.replaced}
        self._note_push(report.generation, time.monotonic() - started, **facts)
        for line in (report.summary(), *(f"note: {each}" for each in report.advice)):
            self._request.say(line)

    def _pushed(self, result: ResolvedSets) -> tuple[PushReport, str]:
        request, record, resolved = self._request, self._record, self._record.steps[RESOLVE]
        coverage = RegistryCoverage(resolved["registry"], resolved["upTo"])
        source = PushSource(
            record.version, f"{record.kind} {record.number}", coverage, record.run,
            resolved.get("commit"), self._store.world_id(),
        )  # fmt: skip
        # The last step removes the replaced generation.
        retention = Retention(request.grace_seconds, keep=1)
        push_all: PushAll | None = None
        gate = gate_for(request, record)
        if resolved["engine"] != Engine.EXACT:

            def push_all(before_switch: Callable[[int], None]) -> PushReport:
                return self._bulk().push(
                    source, request.places.redis_url, retention, before_switch, gate
                )

        base = pushed_base(self._records, self._client, coverage.registry, self._base)
        return push_members(
            self._client, base, source, result,
            retention=retention, say=request.say, full=request.full, push_all=push_all,
            gate=gate,
        )  # fmt: skip

    def _pushed_already(self) -> bool:
        """Return whether the push is done; a kill may have come between the switch and its note."""
        current = found_in_force(self._record, self._records, self._client)
        if current is not None and PUSH not in self._record.steps:
            facts = {"pairs": current.pairs, "how": "found", "replaced": None}
            self._note_push(current.generation, 0.0, **facts)
        return current is not None

    def _note_push(self, generation: int, seconds: float, **facts: Any) -> None:
        tokens = {known.generation: known.token for known in all_generations(self._client)}
        facts["token"] = tokens.get(generation, "")
        self._record.note(PUSH, seconds, generation=generation, **facts)

    def _clean(self) -> RebuildReport:
        record, places = self._record, self._request.places
        pushed = record.steps[PUSH]
        started = time.monotonic()
        try:
            removed = clean_up(
                self._client, self._records, places.world, places.out,
                keep_versions=self._request.keep_versions,
                retention=Retention(self._request.grace_seconds),
                remove_all=self._request.say if self._request.full else None,
            )  # fmt: skip
        except SpapsError as error:
            record.end(FAILED, str(error))
            summary = f"{record.summary()}; cleaning up failed: {error}"
            return RebuildReport(
                record.number, record.version, pushed["generation"], summary, EXIT_NOT_CLEAN
            )
        record.note(CLEAN, time.monotonic() - started, removed=removed)
        record.end(COMPLETE)
        return RebuildReport(record.number, record.version, pushed["generation"], record.summary())
