"""Finds the results of earlier rebuilds that a rebuild can start from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rebuild.record import PUSH, RESOLVE, RebuildRecord, RebuildRecords
from rebuild.registered_sets import KnownSubscriptions
from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import current_generation
from schemas.generation import GenerationFacts, RegistryCoverage
from world.memberships.resolved_sets import ResolvedSets
from world.versions.store import WorldStore


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedBase:
    """The members of all neighborhoods that were registered then, on an existing version."""

    version: int
    registry: str
    result: ResolvedSets
    # The folder of the result.
    folder: Path

    def known(self) -> KnownSubscriptions:
        """Return the subscriptions that need not be read again."""
        return KnownSubscriptions(self.registry, self.result)


@dataclass(frozen=True, slots=True, eq=False)
class PushedBase:
    """The generation in force, and the members that it was made of."""

    facts: GenerationFacts
    result: ResolvedSets


def resolved_base(
    records: RebuildRecords, store: WorldStore, registry: str, wanted: int
) -> ResolvedBase | None:
    """Return the newest result of this registry, preferably one of the wanted version.

    The checksum tells a version from one with the same number in a world that was made again.
    """
    versions = {facts.version: facts.checksum for facts in store.versions()}
    usable = [
        record
        for record in records.all()
        if (facts := record.steps.get(RESOLVE)) is not None
        and facts["registry"] == registry
        and versions.get(record.version) == facts["worldChecksum"]
    ]
    usable.sort(key=lambda record: (record.version == wanted, record.number))
    while usable:
        record = usable.pop()
        result = ResolvedSets.load(record.folder)
        if result is not None:
            return ResolvedBase(record.version, registry, result, record.folder)
    return None


def pushed_base(
    records: RebuildRecords,
    client: RedisClient,
    registry: str,
    loaded: ResolvedBase | None = None,
) -> PushedBase | None:
    """Return the generation in force, if a rebuild made it out of this registry.

    Its result is mostly the one that is ``loaded`` already.
    """
    current = current_generation(client)
    if current is None or current.coverage.registry != registry:
        return None
    for record in reversed(records.all()):
        pushed = record.steps.get(PUSH)
        if pushed is not None and pushed["token"] == current.token:
            if loaded is not None and loaded.folder == record.folder:
                return PushedBase(current, loaded.result)
            result = ResolvedSets.load(record.folder)
            return None if result is None else PushedBase(current, result)
    return None


def found_in_force(
    record: RebuildRecord, records: RebuildRecords, client: RedisClient
) -> GenerationFacts | None:
    """Return the generation in force, if the rebuild of this record has pushed it.

    A kill may have come before the push was noted. Then the generation is ours when it names our
    run. Facts of an earlier release name no run: it is ours when version and subscriptions agree.
    """
    current = current_generation(client)
    if current is None:
        return None
    if PUSH in record.steps:
        return current if record.steps[PUSH]["token"] == current.token else None
    resolved = record.steps[RESOLVE]
    coverage = RegistryCoverage(resolved["registry"], resolved["upTo"])
    if (current.version, current.coverage) != (record.version, coverage):
        return None
    if current.run:
        return current if current.run == record.run else None
    noted = {each.steps.get(PUSH, {}).get("token") for each in records.all()}
    return None if current.token in noted else current
