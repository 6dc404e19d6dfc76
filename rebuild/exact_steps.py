"""The steps of a rebuild that this process does, from what an earlier rebuild has resolved."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from rebuild.base import ResolvedBase, pushed_base, resolved_base
from rebuild.push import push_members
from rebuild.record import RESOLVE, RebuildRecord, RebuildRecords
from rebuild.registered_sets import RegisteredSets, read_registered
from rebuild.request import RebuildRequest
from rebuild.resolve import MemberResolver
from rebuild.steps import RebuildSteps
from redis_link.connection.client import RedisClient
from redis_link.generation.generation_push import PushReport, PushSource
from redis_link.generation.quality_gate import QualityGate
from redis_link.generation.sweep import Retention
from redis_link.registry.registry_reader import registry_coverage
from schemas.errors import WorldError
from spatial_udfs.incremental.world_changes import WorldChanges
from world.imports.world_import import ImportReport
from world.memberships.resolved_sets import ResolvedSets
from world.versions.changes import compare_versions

UNRESOLVED_LISTED: Final = 1_000


class ExactSteps(RebuildSteps):
    """Compares, resolves and pushes with the world in memory."""

    def __init__(
        self,
        request: RebuildRequest,
        records: RebuildRecords,
        record: RebuildRecord,
        client: RedisClient,
        imported: ImportReport | None = None,
    ) -> None:
        """``imported`` is the version in memory, if this process has made it."""
        super().__init__(request, records, record, client)
        self._imported = imported
        self._base: ResolvedBase | None = None
        self._result: ResolvedSets | None = None
        self._changes: dict[int, WorldChanges] = {}
        self._registered: Future[RegisteredSets] | None = None

    def counts_since(self, version: int) -> dict[str, int]:
        """Return how many entities are different since a version, by kind of change."""
        return self._changes_since(version).counts()

    def load_resolved(self) -> bool:
        """Read the members that stand beside the record; return whether they are there."""
        self._result = ResolvedSets.load(self.record.folder)
        return self._result is not None

    def resolve_anew(self) -> None:
        """Compare while the registered subscriptions are read, and resolve them."""
        with ThreadPoolExecutor(1, "subscriptions") as thread:
            self._registered = thread.submit(self._read_subscriptions)
            super().resolve_anew()

    def resolve_members(self) -> dict[str, Any]:
        """Resolve the members, and write them to Delta and beside the record."""
        if self._registered is None:
            raise WorldError("the registered subscriptions were not read")
        registered = self._registered.result()
        resolver = MemberResolver(
            self.request, self.record, self.store, self._imported, self._changes_since
        )
        result, how = resolver.resolve(registered, self._base)
        self._result, lacking = result, ~result.resolved[result.set_of]
        return {
            "registry": registered.coverage.registry, "upTo": registered.coverage.up_to,
            "subscriptions": len(registered.sub_ids), "neighborhoods": len(registered),
            "unresolvedCount": int(lacking.sum()),
            "unresolved": np.sort(result.sub_ids[lacking])[:UNRESOLVED_LISTED].tolist(), **how,
        }  # fmt: skip

    def push_resolved(
        self, source: PushSource, retention: Retention, gate: QualityGate | None
    ) -> tuple[PushReport, str]:
        """Push the differences from the generation in force, or everything."""
        if self._result is None:
            raise WorldError("the members of this rebuild are not there")
        registry = self.record.steps[RESOLVE]["registry"]
        base = pushed_base(self.records, self.client, registry, self._base)
        return push_members(
            self.client, base, source, self._result,
            retention=retention, say=self.request.say, full=self.request.full, gate=gate,
        )  # fmt: skip

    def release(self) -> None:
        """Do nothing: there is no cluster."""

    def _changes_since(self, version: int) -> WorldChanges:
        """Return the changes since a version; several steps mostly ask for the same."""
        if version not in self._changes:
            made, new = self._imported, self.record.version
            entities = made.entities() if made is not None else None
            self._changes[version] = compare_versions(self.store, version, new, entities)
        return self._changes[version]

    def _read_subscriptions(self) -> RegisteredSets:
        """Read the registered subscriptions, and find the earlier result to go on from."""
        registry = registry_coverage(self.client).registry
        if not self.request.full:
            version = self.record.version
            self._base = resolved_base(self.records, self.store, registry, version)
        known = None if self._base is None else self._base.known()
        registered = read_registered(self.client, known)
        self.request.say(
            f"{len(registered.sub_ids):,} subscriptions, {len(registered):,} different"
        )
        return registered
