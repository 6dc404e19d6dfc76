"""What one run of the load generator gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

# From here on the generator itself may be what limits a run.
LATE_MS: Final = 1.0
FULL_SHARE: Final = 0.97
# Messages from which on it can be seen whether a queue grows.
LEAST_OF_GROWTH: Final = 40


@dataclass(frozen=True)
class Run:
    """What one run gave. Shares are of one core; times are milliseconds since a message was due."""

    rate: float
    seconds: float
    sent: int
    expected: int
    delivered: int
    median_ms: float
    p99_ms: float
    # How late the generator sent its bursts, the median.
    late_ms: float
    generator_share: float
    system_share: float
    gave_up: bool
    # Seconds of delay that were gained in a second: above zero when a queue grows.
    growth: float = 0.0
    add_ms: tuple[float, ...] = ()
    adds_missing: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether every message arrived, at the rate asked for."""
        return not self.gave_up and self.delivered == self.expected

    @property
    def generator_is_limit(self) -> bool:
        """Whether the generator may be what limits this run."""
        return self.late_ms > LATE_MS or self.generator_share > FULL_SHARE

    @property
    def microseconds(self) -> float:
        """Processor time of the system for each message."""
        return 1e6 * self.system_share / (self.sent / self.seconds) if self.sent else 0.0


@dataclass(frozen=True)
class Timed:
    """A run with all of its messages: seconds since the start when due, milliseconds they took."""

    run: Run
    due: NDArray[np.float64]
    took_ms: NDArray[np.float64]


def growth_of(due: NDArray[np.float64], took_ms: NDArray[np.float64]) -> float:
    """Return how many seconds of delay a second adds: from the second quarter to the last one."""
    if len(due) < LEAST_OF_GROWTH:
        return 0.0
    low, high = float(due.min()), float(due.max())
    quarter = (high - low) / 4
    if quarter <= 0:
        return 0.0
    at = np.minimum(((due - low) / quarter).astype(np.int64), 3)
    if not (at == 1).any() or not (at == 3).any():
        return 0.0
    risen = float(np.median(took_ms[at == 3]) - np.median(took_ms[at == 1])) / 1e3
    return risen / (2 * quarter)
