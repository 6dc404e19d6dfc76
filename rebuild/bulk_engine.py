"""Which engine a rebuild uses, and what it asks of the bulk engine, without importing Spark.

A small world is rebuilt by this process. A large one is rebuilt by the bulk engine as a whole:
import, comparison, resolution and push. Then this process holds counts and nothing that grows with
entities, subscriptions or memberships.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from redis_link.generation.generation_push import PushReport, PushSource
from redis_link.generation.generation_store import SubscriptionChanges
from redis_link.generation.quality_gate import QualityGate
from redis_link.generation.sweep import Retention
from schemas.errors import SettingsError
from schemas.generation import GenerationFacts, RegistryCoverage
from world.imports.world_import import ImportReport

# A process holds about 1 kB for each entity, and imports and compares by itself: `python -m
# bench.rebuild.engines` compares both.
SPARK_FROM_ENTITIES: Final = 3_000_000
# An entity takes 40 bytes or more of a GeoParquet file or of an OSM extract in PBF.
SPARK_FROM_BYTES: Final = 40 * SPARK_FROM_ENTITIES
# A process resolves some thousand neighborhoods a second.
SPARK_FROM_NEIGHBORHOODS: Final = 200_000


class Engine(StrEnum):
    """What rebuilds; AUTO decides by the size of the world and of the work."""

    AUTO = "auto"
    EXACT = "exact"
    SPARK = "spark"


class Choice(NamedTuple):
    """The engine of a rebuild, and why."""

    engine: Engine
    reason: str

    def line(self) -> str:
        """Return one line for people."""
        where = "on Spark" if self.engine is Engine.SPARK else "in this process"
        return f"rebuilt {where}: {self.reason}"


def engine_of_sources(wanted: Engine, entities: int | None, size: int) -> Choice:
    """Return what imports: by the entities of the version before, else by the bytes of the sources.

    ``wanted`` decides where it is not AUTO.
    """
    if wanted is not Engine.AUTO:
        return Choice(wanted, f"the engine {wanted} was asked for")
    if entities is not None:
        return engine_of_world(wanted, entities, 0)
    large = size >= SPARK_FROM_BYTES
    limit = f"Spark from {SPARK_FROM_BYTES:,} on"
    return Choice(Engine.SPARK if large else Engine.EXACT, f"{size:,} bytes of sources ({limit})")


def engine_of_world(wanted: Engine, entities: int, neighborhoods: int) -> Choice:
    """Return what resolves and pushes, by the entities and the different neighborhoods."""
    if wanted is not Engine.AUTO:
        return Choice(wanted, f"the engine {wanted} was asked for")
    if neighborhoods >= SPARK_FROM_NEIGHBORHOODS:
        limit = f"Spark from {SPARK_FROM_NEIGHBORHOODS:,} on"
        return Choice(Engine.SPARK, f"{neighborhoods:,} neighborhoods ({limit})")
    large = entities >= SPARK_FROM_ENTITIES
    limit = f"Spark from {SPARK_FROM_ENTITIES:,} on"
    return Choice(Engine.SPARK if large else Engine.EXACT, f"{entities:,} entities ({limit})")


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What the bulk engine wrote to Delta; ``coverage`` says for which subscriptions.

    ``taken_over`` of the neighborhoods were not resolved but are as they were in version ``base``.
    """

    rows: int
    commit: int | None
    subscriptions: int
    neighborhoods: int
    unresolved: int
    coverage: RegistryCoverage
    taken_over: int = 0
    base: int | None = None


class BulkEngine(Protocol):
    """Does the steps of a rebuild that one process cannot."""

    def import_version(self, sources: Sequence[str], options: Mapping[str, Any]) -> ImportReport:
        """Import the sources as one more version, unless the newest one has the same input."""

    def change_counts(self, old: int, new: int) -> dict[str, int]:
        """Return how many entities are different in two versions, as ``WorldChanges.counts``."""

    def resolve_all(
        self, version: int, redis_url: str, run: str, *, incremental: bool
    ) -> BulkResult:
        """Write the memberships of all registered subscriptions on the version.

        ``incremental``: what the change since an earlier version cannot reach is taken over.
        """

    def changed_subscriptions(
        self, old: GenerationFacts, version: int, commit: int
    ) -> SubscriptionChanges:
        """Return what is different for each subscription since a generation."""

    def push(
        self,
        source: PushSource,
        redis_url: str,
        retention: Retention,
        before_switch: Callable[[int], None],
        gate: QualityGate | None,
    ) -> PushReport:
        """Push all memberships of the version into Redis, unless the gate refuses them."""

    def close(self) -> None:
        """Stop what was started for this rebuild."""


# Makes an engine for a world, a folder of results and a function that takes lines for people.
BulkEngineFactory: TypeAlias = Callable[[str, str, Callable[[str], None]], BulkEngine]


def no_bulk_engine(world: str, out: str, say: Callable[[str], None]) -> BulkEngine:  # noqa: ARG001 - the factory's shape
    """Refuse: this rebuild was started without a bulk engine."""
    raise SettingsError(f"{world} needs the bulk engine, and this rebuild has none")


class EngineOnDemand:
    """Makes the bulk engine at its first use: a small world needs no Java."""

    def __init__(self, make: Callable[[], BulkEngine]) -> None:
        self._make = make
        self._made: BulkEngine | None = None

    def get(self) -> BulkEngine:
        """Return the engine."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def close(self) -> None:
        """Stop the engine, if it was ever made."""
        if self._made is not None:
            self._made.close()
            self._made = None


def engine_of(name: str) -> Engine:
    """Return the engine of that name."""
    try:
        return Engine(name)
    except ValueError:
        known = ", ".join(Engine)
        raise SettingsError(f"rebuild.engine must be one of {known}, not {name!r}") from None
