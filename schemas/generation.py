"""The values of Redis' control keys: facts of a generation, and the holder of the push lock."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from schemas.errors import DamagedRedisError, GenerationError
from schemas.redis_keys import SHARD_COUNT


@dataclass(frozen=True, slots=True)
class RegistryCoverage:
    """The registered subscriptions that a generation has: all up to the given subId.

    A broker adds later ones itself. Without a registry, the subIds come from a file and have no
    meaning in a broker's registry.
    """

    registry: str = ""
    up_to: int = 0


FROM_FILE: Final = RegistryCoverage()


class GenerationState(StrEnum):
    """The states of a generation. Only a complete one can be or become current."""

    BUILDING = "building"
    COMPLETE = "complete"
    REMOVING = "removing"
    # Its keys are removed. The facts stay for a while, so that keys of a late writer are found.
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class GenerationFacts:
    """The facts of a generation. Counts and checksum are those of the push."""

    generation: int
    version: int
    state: GenerationState
    started_by: str
    started_at: float  # seconds since 1970, by the clock of Redis
    token: str  # distinguishes generations of equal number after Redis was emptied
    pairs: int = 0
    peids: int = 0
    checksum: str = ""
    completed_at: float | None = None
    # When another one became current, or its keys were removed.
    retired_at: float | None = None
    coverage: RegistryCoverage = FROM_FILE
    shards: int = SHARD_COUNT
    # The run that computed the memberships, and its commit in the Delta table.
    run: str = ""
    commit: int | None = None
    # The world of the version (WorldStore.world_id); "" if it is not known.
    world: str = ""

    def to_json(self) -> str:
        """Return the facts as canonical JSON: scripts compare the text to detect changes."""
        content = asdict(self)
        del content["generation"]  # it is the field of the hash
        # Facts of an earlier release lack these, and their text must stay the same.
        for name in ("run", "commit", "world"):
            if content[name] in ("", None):
                del content[name]
        return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, generation: int, text: str | bytes) -> GenerationFacts:
        """Return facts as read from Redis; an unknown key (of a later release) is an error."""
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
    """The holder of the push lock, as an error about a held lock names it."""

    what: str
    host: str
    pid: int
    since: float
    token: str

    def to_json(self) -> str:
        """Return the value of the lock, which is unique because of its token."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> PushHolder:
        """Return the holder as read from the lock."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise DamagedRedisError(f"the push lock has an unknown value ({error})") from error
