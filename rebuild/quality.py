"""Checks before a rebuild switches, so that not too much of what is in force is gone.

A rollback is not checked: it goes back to a version that somebody names.
"""

from __future__ import annotations

from collections.abc import Callable

from rebuild.record import COMPARE, REBUILD, RESOLVE, RebuildRecord
from rebuild.request import RebuildRequest
from redis_link.connection.client import RedisClient
from redis_link.generation.quality_gate import QualityGate, generation_in_force
from world.versions.store import WorldStore


def gate_for(request: RebuildRequest, record: RebuildRecord) -> QualityGate | None:
    """Return the gate of a rebuild; None for a rollback."""
    return request.gate if record.kind == REBUILD else None


def check_world(
    request: RebuildRequest,
    record: RebuildRecord,
    store: WorldStore,
    client: RedisClient,
    counts_since: Callable[[int], dict[str, int]],
) -> None:
    """Raise a QualityError when too many entities of the version in force are gone."""
    gate, in_force = gate_for(request, record), generation_in_force(client)
    if gate is None or in_force is None or in_force.world != store.world_id():
        return
    entities = {facts.version: facts.entity_count for facts in store.versions()}
    if in_force.version == record.version or in_force.version not in entities:
        return
    compared = record.steps.get(COMPARE, {})
    if compared.get("against") == in_force.version:
        gone = int(compared["changes"]["removed"])
    else:
        gone = counts_since(in_force.version)["removed"]
    gate.check_world(entities[in_force.version], gone, request.say)


def check_resolved(request: RebuildRequest, record: RebuildRecord) -> None:
    """Raise a QualityError when too many subscriptions were not resolved."""
    gate, resolved = gate_for(request, record), record.steps[RESOLVE]
    if gate is not None:
        gate.check_resolved(resolved["subscriptions"], resolved["unresolvedCount"], request.say)
