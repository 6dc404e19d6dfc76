"""How much of everything there is in a soak, and when it happens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """One soak."""

    publishers: int
    # Messages a second of all publishers.
    rate: float
    subscribers: int
    # Neighborhoods of one subscriber at most.
    nsids: int
    changes_a_second: float
    cuts_a_minute: float
    # Editions, each after the first one rebuild, beside which something more happens.
    redis_restart_at: int
    broker_kill_at: int
    rollback_at: int | None
    # How likely an attempt to rebuild is killed; the first one for this edition surely is.
    rebuild_kills: float
    sure_kill_at: int
    grace_seconds: float
    pause_seconds: float
    # How the broker filters before and after it is killed.
    memberships: tuple[str, str] = ("memory", "redis")
    seed: int = 1
