"""What a push did, for people and for files."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from typing import Any

from redis_link.connection.client import RedisClient
from redis_link.connection.server_advice import server_advice
from redis_link.generation.background_sweep import BackgroundSweep
from redis_link.generation.generation_push import GenerationPush
from redis_link.generation.sweep import Retention
from redis_link.sets.set_memory import bytes_per_pair
from schemas.errors import GenerationError


@dataclass(frozen=True, slots=True)
class PushReport:
    """A push that has switched. ``seconds`` by step; "total" is all of it."""

    generation: int
    version: int
    pairs: int
    peids: int
    checksum: str
    seconds: dict[str, float]
    bytes_per_pair: float | None
    replaced: int | None
    # Left behind by killed pushes and removed now.
    swept: tuple[int, ...] = ()
    advice: tuple[str, ...] = ()
    # Removes the replaced generation after the grace time: wait for it, or leave it.
    cleanup: BackgroundSweep | None = field(default=None, compare=False, repr=False)

    @property
    def pairs_per_second(self) -> float:
        """Pairs by the time of everything: reading, writing, reading back, switching."""
        return self.pairs / max(self.seconds["total"], 1e-9)

    def summary(self) -> str:
        """One line."""
        cost = f", {self.bytes_per_pair:.1f} bytes a pair" if self.bytes_per_pair else ""
        before = "" if self.replaced is None else f" in place of {self.replaced}"
        return (
            f"generation {self.generation} of world version {self.version} is current{before}: "
            f"{self.pairs:,} pairs of {self.peids:,} entities in {self.seconds['total']:.1f} s "
            f"({self.pairs_per_second:,.0f} pairs/s{cost})"
        )

    def to_dict(self) -> dict[str, Any]:
        """For a table of run facts or a JSON file."""
        names = [each.name for each in fields(self) if each.name != "cleanup"]
        content = {name: getattr(self, name) for name in names}
        return content | {"pairs_per_second": self.pairs_per_second}


def report_of(
    client: RedisClient,
    push: GenerationPush,
    seconds: dict[str, float],
    retention: Retention,
) -> PushReport:
    """The report of a push that has switched; starts the sweep of what it replaced."""
    facts = push.completed
    if facts is None:
        raise GenerationError("a push that has not switched has nothing to report")
    return PushReport(
        generation=facts.generation,
        version=facts.version,
        pairs=facts.pairs,
        peids=facts.peids,
        checksum=facts.checksum,
        seconds=seconds,
        bytes_per_pair=bytes_per_pair(client, facts.generation, facts.peids),
        replaced=None if push.replaced is None else push.replaced.generation,
        swept=push.swept,
        advice=server_advice(client),
        cleanup=BackgroundSweep(client, retention),
    )


class StepClock:
    """Seconds of each step, and of all together under "total"."""

    def __init__(self) -> None:
        self._started = self._lap = time.monotonic()
        self.seconds: dict[str, float] = {}

    def lap(self, step: str) -> None:
        """A step ends here and the next one begins."""
        now = time.monotonic()
        self.seconds[step] = now - self._lap
        self.seconds["total"] = now - self._started
        self._lap = now

    def skip(self) -> None:
        """What passed since the last step was somebody else's work, and counts for none."""
        now = time.monotonic()
        self._started += now - self._lap
        self._lap = now
