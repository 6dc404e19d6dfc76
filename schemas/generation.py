"""Facts of one generation in Redis, and who may push: the values behind the control keys."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from schemas.errors import DamagedRedisError, GenerationError
from schemas.redis_keys import SHARD_COUNT


@dataclass(frozen=True, slots=True)
class RegistryCoverage:
    """Which registered subscriptions a generation holds: all up to the given subId.

    Whatever was registered later, a broker adds by itself. No registry: the subIds are those
    of a file and mean nothing to a broker's registry.
    """

    registry: str = ""
    up_to: int = 0


FROM_FILE: Final = RegistryCoverage()


class GenerationState(StrEnum):
    """The life of a generation. Only a complete one can be current or become so."""

    BUILDING = "building"
    COMPLETE = "complete"
    REMOVING = "removing"
    # Its keys are gone; the facts stay for a while so that a late writer's traces are found.
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class GenerationFacts:
    """What is known about a generation. Counts and checksum are those of the push."""

    generation: int
    version: int
    state: GenerationState
    started_by: str
    started_at: float  # seconds since 1970, by the clock of Redis
    token: str  # tells generations of one number apart after Redis was emptied
    pairs: int = 0
    peids: int = 0
    checksum: str = ""
    completed_at: float | None = None
    # Since when another one is current, or its keys are gone.
    retired_at: float | None = None
    coverage: RegistryCoverage = FROM_FILE
    shards: int = SHARD_COUNT
    # The run that computed the memberships, and the commit of the Delta table that it wrote.
    run: str = ""
    commit: int | None = None
    # The world that the version belongs to (WorldStore.world_id); "" where that is not known.
    world: str = ""

    def to_json(self) -> str:
        """Return the one text for these facts: scripts compare it to see that nothing changed."""
        content = asdict(self)
        del content["generation"]  # the hash field says it, and knows it first
        # Facts that an earlier release wrote have none, and must come out as they are.
        for name in ("run", "commit", "world"):
            if content[name] in ("", None):
                del content[name]
        return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, generation: int, text: str | bytes) -> GenerationFacts:
        """Return facts as read from Redis; an unknown key, of a later release, is an error."""
        try:
            content: dict[str, Any] = json.loads(text)
            content["state"] = GenerationState(content["state"])
            content["coverage"] = RegistryCoverage(**content["coverage"])
            facts = cls(generation=generation, **content)
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedRedisError(
                f"generation {generation} has facts that this release does not understand ({error})"
            ) from error
        if facts.shards != SHARD_COUNT:
            raise GenerationError(
                f"generation {generation} is laid out in {facts.shards} shards, "
                f"this release reads {SHARD_COUNT}"
            )
        return facts


@dataclass(frozen=True, slots=True)
class PushHolder:
    """Who holds the push lock, in words for whoever finds it held."""

    what: str
    host: str
    pid: int
    since: float
    token: str

    def to_json(self) -> str:
        """Return the value of the lock; unique by its token."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> PushHolder:
        """Return the holder as read from the lock."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise DamagedRedisError(f"the push lock holds something unknown ({error})") from error
