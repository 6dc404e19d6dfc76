"""The versions of a world with what rebuilds made of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rebuild.record import COMPARE, PUSH, RebuildRecords
from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import all_generations, current_number
from schemas.generation import GenerationState
from world.versions.store import WorldStore


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """One version; ``changes`` is None where no rebuild has compared it with the one before.

    ``generation`` is the last one that was made for it, whether it is still there or not.
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
    """All versions, oldest first; without a client none of them is in force."""
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
