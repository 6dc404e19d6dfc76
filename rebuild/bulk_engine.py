"""The bulk engine as a rebuild sees it: whoever starts a rebuild gives one along.

A rebuild itself never imports Spark. It asks for the engine when the size of the work needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from rebuild.exact_workers import SetResolver
from rebuild.registered_sets import RegisteredSets
from redis_link.generation.generation_push import PushSource
from redis_link.generation.push_report import PushReport
from redis_link.generation.sweep import Retention
from schemas.errors import SettingsError
from world.memberships.resolved_sets import ResolvedSets


class BulkRun(Protocol):
    """What the engine wrote to Delta."""

    @property
    def rows(self) -> int:
        """Rows of the memberships."""

    @property
    def commit(self) -> int | None:
        """The number of the commit that holds them."""


class BulkEngine(SetResolver, Protocol):
    """Resolves and pushes what one process cannot."""

    def resolve_all(
        self, version: int, registered: RegisteredSets, run: str
    ) -> tuple[ResolvedSets, BulkRun]:
        """Write the memberships of the version to Delta; return its members by neighborhood."""

    def push(
        self,
        source: PushSource,
        redis_url: str,
        retention: Retention,
        before_switch: Callable[[int], None],
    ) -> PushReport:
        """Bring all memberships of the version into Redis."""

    def close(self) -> None:
        """Give back what was started for this rebuild."""


# Makes an engine for a world, a folder of results, and somebody to tell. Nothing is started before
# the engine is asked for something.
BulkEngineFactory: TypeAlias = Callable[[str, str, Callable[[str], None]], BulkEngine]


def no_bulk_engine(world: str, out: str, say: Callable[[str], None]) -> BulkEngine:  # noqa: ARG001 - the factory's shape
    """Refuse: this rebuild was started without a bulk engine."""
    raise SettingsError(f"{world} needs the bulk engine, and this rebuild has none")
