"""Refuses to switch to a generation that would take away too much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from redis_link.connection.client import RedisClient
from redis_link.generation.generation_losses import Losses
from redis_link.generation.generation_store import current_generation
from schemas.errors import DamagedRedisError, QualityError, SettingsError
from schemas.generation import GenerationFacts
from schemas.settings import QualitySettings


def generation_in_force(client: RedisClient) -> GenerationFacts | None:
    """Return the generation in force; None where there is none, or none that can be read."""
    try:
        return current_generation(client)
    except DamagedRedisError:
        return None


SWITCH_ANYWAY: Final = "--switch-anyway"


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole, in words, and the setting that limits it."""

    setting: str
    what: str
    part: int
    whole: int

    def text(self, limit: float) -> str:
        """Return the share with its numbers."""
        share = f"{self.part / self.whole:.1%}, allowed {limit:.1%}"
        return f"{self.part:,} of {self.whole:,} {self.what} ({share})"


@dataclass(frozen=True, slots=True)
class QualityGate:
    """The limits of one push or rebuild; ``switch_anyway`` turns a refusal into a remark."""

    limits: QualitySettings
    switch_anyway: bool = False

    def check_world(self, entities: int, gone: int, say: Callable[[str], None]) -> None:
        """Refuse a world version that lacks too many entities of the one in force."""
        what = "entities of the world would be gone"
        self._decide([Share("entities_gone", what, gone, entities)], say)

    def check_resolved(
        self, subscriptions: int, unresolved: int, say: Callable[[str], None]
    ) -> None:
        """Refuse a result in which too many subscriptions could not be resolved."""
        what = "subscriptions are unresolved"
        self._decide([Share("unresolved", what, unresolved, subscriptions)], say)

    def check_losses(self, losses: Losses, say: Callable[[str], None]) -> None:
        """Refuse a generation that lacks too much of the one in force."""
        entities = "entities with members would be gone"
        members = "members would be gone"
        shares = [
            Share("entities_gone", entities, losses.entities_gone, losses.entities),
            Share("members_gone", members, losses.members_gone, losses.members),
        ]
        self._decide(shares, say)

    def _decide(self, shares: list[Share], say: Callable[[str], None]) -> None:
        exceeded = [share for share in shares if self._is_exceeded(share)]
        if not exceeded:
            return
        told = "; ".join(share.text(self._limit(share)) for share in exceeded)
        if self.switch_anyway:
            say(f"note: {SWITCH_ANYWAY} was given: {told}")
            return
        names = " and ".join(f"quality.{share.setting}" for share in exceeded)
        raise QualityError(
            f"nothing was switched: {told}; if this is meant, start again with {SWITCH_ANYWAY} "
            f"or raise {names} in the settings"
        )

    def _is_exceeded(self, share: Share) -> bool:
        is_counted = share.whole >= max(self.limits.counted_from, 1)
        return is_counted and share.part > self._limit(share) * share.whole

    def _limit(self, share: Share) -> float:
        limit: float = getattr(self.limits, share.setting)
        return limit


def gate_of(limits: QualitySettings, *, switch_anyway: bool) -> QualityGate:
    """Return the gate of a command; a SettingsError names a limit that is no share."""
    for name in ("entities_gone", "members_gone", "unresolved"):
        share = getattr(limits, name)
        if not 0 <= share <= 1:
            raise SettingsError(f"quality.{name} must be a number from 0 to 1, not {share}")
    if limits.counted_from < 0:
        raise SettingsError("quality.counted_from must be a number of 0 or more")
    return QualityGate(limits, switch_anyway)
