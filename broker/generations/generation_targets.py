"""The memberships of each mode as something that can change over to another generation."""

from __future__ import annotations

from broker.filter.generation_builder import GenerationBuilder
from broker.filter.memberships_memory import MemoryMemberships
from broker.filter.memberships_redis import RedisMemberships


class MemoryTarget:
    """Everything is read into this process."""

    wants_rows = True

    def __init__(self, memberships: MemoryMemberships) -> None:
        self._memberships = memberships

    def begin(self, *, is_other_world: bool) -> GenerationBuilder:
        """Start to build the next generation beside the one in force."""
        return self._memberships.begin_generation(is_other_world=is_other_world)

    def abandon(self) -> None:
        """Stay with the one in force."""
        self._memberships.abandon()

    def switch(self, builder: GenerationBuilder, generation: int | None) -> None:  # noqa: ARG002 - the protocol's shape
        """Put the next one in force."""
        self._memberships.switch(builder)

    def confirm(self, at: float) -> None:
        """Nothing is read of Redis any more."""


class RedisTarget:
    """Rows stay in Redis; only what comes beside them is built."""

    wants_rows = False

    def __init__(self, memberships: RedisMemberships) -> None:
        self._memberships = memberships

    def begin(self, *, is_other_world: bool) -> GenerationBuilder:
        """Start to collect what the next generation does not hold."""
        return self._memberships.begin_generation(is_other_world=is_other_world)

    def abandon(self) -> None:
        """Stay with the one in force."""
        self._memberships.abandon()

    def switch(self, builder: GenerationBuilder, generation: int | None) -> None:
        """Read the sets of the next one from now on."""
        self._memberships.switch(builder, generation)

    def confirm(self, at: float) -> None:
        """The sets are sure to be there for a while from that time."""
        self._memberships.confirmed_at = max(self._memberships.confirmed_at, at)
