"""Removes what no reader, no rollback and no later rebuild needs after a switch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rebuild.record import PUSH, RESOLVE, RebuildRecord, RebuildRecords
from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import all_generations, current_number
from redis_link.generation.repair import remove_orphans
from redis_link.generation.sweep import BackgroundSweep, Retention
from schemas.generation import GenerationState
from world.memberships.membership_table import remove_memberships
from world.memberships.resolved_sets import ResolvedSets
from world.versions.removal import remove_versions, versions_to_keep
from world.versions.store import WorldStore

# A record has some hundred bytes; this many cover months.
MOST_RECORDS: Final = 200


def clean_up(
    client: RedisClient, records: RebuildRecords, world: str, out: str,
    *, keep_versions: int, retention: Retention, remove_all: Callable[[str], None] | None = None,
) -> dict[str, list[int]]:  # fmt: skip
    """Remove old generations, versions, memberships and records; return what was removed.

    With ``remove_all``, sets of generations without facts are removed too; it gets a line about
    them.
    """
    swept = BackgroundSweep(client, retention).wait()
    if remove_all is not None:
        remove_orphans(client, remove_all)
    store = WorldStore(world)
    kept = versions_to_keep(store, keep_versions, _versions_in_redis(client))
    gone = remove_versions(store, kept)
    remove_memberships(out, kept)
    _clean_records(records, client, kept)
    return {"generations": list(swept), "versions": gone}


def _versions_in_redis(client: RedisClient) -> set[int]:
    """Return the versions on which a broker may have to resolve."""
    return {
        facts.version
        for facts in all_generations(client)
        if facts.state is GenerationState.COMPLETE
    }


def _clean_records(records: RebuildRecords, client: RedisClient, kept: frozenset[int]) -> None:
    """Remove members and records that no later rebuild needs.

    Members stay where a rebuild can start from them: the newest of each version, and those in
    force. Records stay if they are among the newest or about an existing version.
    """
    everything = records.all()
    current = current_number(client)
    bases = {record.version: record for record in everything if RESOLVE in record.steps}
    needed = {record.number for version, record in bases.items() if version in kept}
    needed |= {record.number for record in everything if _generation(record) == current}
    for record in everything:
        if record.number not in needed:
            ResolvedSets.remove(record.folder)
        if record.version not in kept and record not in everything[-MOST_RECORDS:]:
            records.remove(record)
    records.remove_leftovers()


def _generation(record: RebuildRecord) -> int | None:
    return record.steps.get(PUSH, {}).get("generation")
