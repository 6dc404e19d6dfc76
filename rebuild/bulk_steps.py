"""The steps of a rebuild that the bulk engine does: for what one process should not hold."""

from __future__ import annotations

from typing import Any

from rebuild.bulk_engine import BulkEngine, Engine
from rebuild.record import RESOLVE, RebuildRecord, RebuildRecords
from rebuild.request import RebuildRequest
from rebuild.steps import RebuildSteps
from redis_link.connection.client import RedisClient
from redis_link.generation.generation_push import PushReport, PushSource
from redis_link.generation.generation_store import current_generation, keep_changes
from redis_link.generation.quality_gate import QualityGate
from redis_link.generation.sweep import Retention
from schemas.errors import SpapsError
from schemas.generation import GenerationFacts


class BulkSteps(RebuildSteps):
    """Compares, resolves and pushes on Spark; this process holds counts.

    What the change of the world cannot reach is taken over: pairs of entities that are the same in
    both versions, and sets of members. The rest is resolved, and with ``full`` all sets are.
    """

    def __init__(
        self,
        request: RebuildRequest,
        records: RebuildRecords,
        record: RebuildRecord,
        client: RedisClient,
        engine: BulkEngine,
    ) -> None:
        super().__init__(request, records, record, client)
        self._engine = engine
        self._counts: dict[int, dict[str, int]] = {}

    def counts_since(self, version: int) -> dict[str, int]:
        """Return how many entities are different since a version, by kind of change."""
        if version not in self._counts:
            self._counts[version] = self._engine.change_counts(version, self.record.version)
        return self._counts[version]

    def load_resolved(self) -> bool:
        """Return whether the members are in Delta: then there is nothing to load."""
        done = self.record.steps[RESOLVE]
        return done["engine"] == Engine.SPARK and done["commit"] is not None

    def resolve_members(self) -> dict[str, Any]:
        """Resolve the registered subscriptions that the change can reach; write all into Delta."""
        places, record = self.request.places, self.record
        found = self._engine.resolve_all(
            record.version, places.redis_url, record.run, incremental=not self.request.full
        )
        return {
            "registry": found.coverage.registry, "upTo": found.coverage.up_to,
            "subscriptions": found.subscriptions, "neighborhoods": found.neighborhoods,
            "unresolvedCount": found.unresolved, "rows": found.rows, "commit": found.commit,
            "engine": Engine.SPARK.value, "resolved": found.neighborhoods - found.taken_over,
            "base": found.base,
        }  # fmt: skip

    def push_resolved(
        self, source: PushSource, retention: Retention, gate: QualityGate | None
    ) -> tuple[PushReport, str]:
        """Push everything; brokers are told what is different for each subscription."""
        before = current_generation(self.client)

        def keep(generation: int) -> None:
            if before is not None and self._is_comparable(before, source):
                self._keep_changes(generation, before, source)

        report = self._engine.push(source, self.request.places.redis_url, retention, keep, gate)
        return report, "all"

    def release(self) -> None:
        """Stop Spark."""
        self._engine.close()

    def _is_comparable(self, before: GenerationFacts, source: PushSource) -> bool:
        """Return whether Delta has the memberships of a generation, for these subscriptions."""
        same = (before.coverage.registry, before.world) == (source.coverage.registry, source.world)
        return same and None not in (before.commit, source.commit)

    def _keep_changes(self, generation: int, before: GenerationFacts, source: PushSource) -> None:
        try:
            changes = self._engine.changed_subscriptions(before, source.version, source.commit or 0)
        except SpapsError as error:
            self.request.say(f"note: brokers compare by themselves what is different: {error}")
            return
        keep_changes(self.client, generation, changes)
