"""Does the steps of a rebuild after the import: compare, resolve, push and switch, clean up.

A step that the record names as complete is not done again, so a killed rebuild goes on.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

from rebuild.base import found_in_force
from rebuild.cleanup import clean_up
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
from rebuild.request import RebuildReport, RebuildRequest
from redis_link.connection.client import RedisClient
from redis_link.generation.generation_push import PushReport, PushSource
from redis_link.generation.generation_store import all_generations
from redis_link.generation.quality_gate import QualityGate
from redis_link.generation.sweep import Retention
from redis_link.registry.registry_reader import registry_coverage
from schemas.errors import EXIT_NOT_CLEAN, SpapsError
from schemas.generation import RegistryCoverage
from schemas.membership import RUNS_TABLE
from world.memberships.run_commits import note_generation
from world.versions.delta_tables import find_table, table_errors
from world.versions.store import WorldStore


class RebuildSteps(ABC):
    """The steps of one rebuild or rollback to a known version.

    Subclasses say how they are done: in this process, or by the bulk engine.
    """

    def __init__(
        self,
        request: RebuildRequest,
        records: RebuildRecords,
        record: RebuildRecord,
        client: RedisClient,
    ) -> None:
        self.request = request
        self.records = records
        self.record = record
        self.client = client
        self.store = WorldStore(request.places.world)
        self.facts = self.store.facts_of(record.version)

    @abstractmethod
    def counts_since(self, version: int) -> dict[str, int]:
        """Return how many entities are different since a version, by kind of change."""

    @abstractmethod
    def load_resolved(self) -> bool:
        """Take up what was resolved before a kill; return whether it is there."""

    @abstractmethod
    def resolve_members(self) -> dict[str, Any]:
        """Resolve all subscriptions, write them to Delta, and return the facts for the record."""

    @abstractmethod
    def push_resolved(
        self, source: PushSource, retention: Retention, gate: QualityGate | None
    ) -> tuple[PushReport, str]:
        """Push and switch; return the report, and how it was done: ``changes`` or ``all``."""

    @abstractmethod
    def release(self) -> None:
        """Stop what the steps need no longer: a cluster must not wait for the grace time."""

    def go(self) -> RebuildReport:
        """Do all steps that are not complete yet."""
        record, say = self.record, self.request.say
        if record.steps.keys() & {COMPARE, RESOLVE, PUSH}:
            say(f"{record.kind} {record.number} goes on after: {', '.join(record.steps)}")
        try:
            if not (self._was_resolved() and self.load_resolved()):
                self.resolve_anew()
            self._push()
        except SpapsError as error:
            record.end(FAILED, str(error))
            raise
        finally:
            self.release()
        return self._clean()

    def resolve_anew(self) -> None:
        """Compare, and resolve all subscriptions."""
        self._compare()
        check_world(self.request, self.record, self.store, self.client, self.counts_since)
        self._resolve()

    def _compare(self) -> None:
        """Note what the version changed against the one before it, for people."""
        if COMPARE in self.record.steps:
            return
        started = time.monotonic()
        earlier = [f.version for f in self.store.versions() if f.version < self.record.version]
        if not earlier:
            self.record.note(COMPARE, 0.0, against=None, changes={})
            return
        counts = self.counts_since(earlier[-1])
        self.record.note(COMPARE, time.monotonic() - started, against=earlier[-1], changes=counts)
        listed = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
        self.request.say(f"against version {earlier[-1]}: {listed or 'no entity is different'}")

    def _was_resolved(self) -> bool:
        """Return whether the record has members of this version and this registry."""
        done = self.record.steps.get(RESOLVE)
        if done is None:
            return False
        # The subIds of a registry that is gone mean nothing to brokers.
        known = (self.facts.checksum, registry_coverage(self.client).registry)
        return bool((done["worldChecksum"], done["registry"]) == known)

    def _resolve(self) -> None:
        started = time.monotonic()
        facts = self.resolve_members()
        self.record.note(
            RESOLVE, time.monotonic() - started, worldChecksum=self.facts.checksum, **facts
        )
        self.request.say(
            f"memberships of version {self.record.version}: {facts['rows']:,} rows; "
            f"{facts['unresolvedCount']:,} subscriptions have no result there"
        )

    def _push(self) -> None:
        """Push the members and switch, unless this was done before a kill."""
        if self._pushed_already():
            return
        check_resolved(self.request, self.record)
        started = time.monotonic()
        record, resolved = self.record, self.record.steps[RESOLVE]
        source = PushSource(
            record.version, f"{record.kind} {record.number}",
            RegistryCoverage(resolved["registry"], resolved["upTo"]), record.run,
            resolved.get("commit"), self.store.world_id(),
        )  # fmt: skip
        # The last step removes the replaced generation.
        retention = Retention(self.request.grace_seconds, keep=1)
        report, how = self.push_resolved(source, retention, gate_for(self.request, record))
        facts = {"pairs": report.pairs, "how": how, "replaced": report.replaced}
        self._note_push(report.generation, time.monotonic() - started, **facts)
        for line in (report.summary(), *(f"note: {each}" for each in report.advice)):
            self.request.say(line)

    def _pushed_already(self) -> bool:
        """Return whether the push is done; a kill may have come between the switch and its note."""
        current = found_in_force(self.record, self.records, self.client)
        if current is not None and PUSH not in self.record.steps:
            facts = {"pairs": current.pairs, "how": "found", "replaced": None}
            self._note_push(current.generation, 0.0, **facts)
        return current is not None

    def _note_push(self, generation: int, seconds: float, **facts: Any) -> None:
        runs = f"{self.request.places.out}/{RUNS_TABLE}"
        with table_errors(runs):
            note_generation(find_table(runs), self.record.run, generation)
        tokens = {known.generation: known.token for known in all_generations(self.client)}
        facts["token"] = tokens.get(generation, "")
        self.record.note(PUSH, seconds, generation=generation, **facts)

    def _clean(self) -> RebuildReport:
        record, places = self.record, self.request.places
        pushed = record.steps[PUSH]
        started = time.monotonic()
        try:
            removed = clean_up(
                self.client, self.records, places.world, places.out,
                keep_versions=self.request.keep_versions,
                retention=Retention(self.request.grace_seconds),
                remove_all=self.request.say if self.request.full else None,
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
