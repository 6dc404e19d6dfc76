"""How long the journal waits, how much it keeps in mind, and what it counts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from broker.durability.ownership import LEASE_SECONDS, STUCK_SECONDS


class JournalState(Enum):
    """Where records go."""

    PRESENT = "present"  # into Redis, before anything is acknowledged
    AWAY = "away"  # Redis cannot be reached: into memory
    TAKEN = "taken"  # another process owns the durable state: into memory, for good


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLimits:
    """Times are seconds."""

    # How long Redis may take to answer, and how long acknowledgements wait for it in all.
    answer_seconds: float = 2.0
    patience_seconds: float = 5.0
    # Records that may gather while an earlier step waits for its answer.
    waiting_records: int = 100_000
    # Changes that are kept in mind while Redis is away; beyond it everything is written anew.
    waiting_changes: int = 100_000
    lease_seconds: float = LEASE_SECONDS
    # How long the event loop may stand still before the lease is given up.
    stuck_seconds: float = STUCK_SECONDS


@dataclass(slots=True)
class JournalFigures:
    """Totals since the start, for metrics."""

    steps: int = 0
    stored_records: int = 0
    # Records whose promises were given although Redis did not have them.
    not_durable_records: int = 0
    times_away: int = 0
    fresh_editions: int = 0
