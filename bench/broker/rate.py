"""What one run of the load generator gave: messages, seconds, shares of a core."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# The kernel counts processor time in these units, whatever the machine.
TICKS: Final = 100.0


@dataclass(frozen=True)
class Rate:
    """What one run gave; shares are of one core."""

    publishes: int
    seconds: float
    generator_share: float
    broker_share: float

    @property
    def per_second(self) -> float:
        """Publishes a second."""
        return self.publishes / self.seconds


class Clock:
    """Time of a run: by the clock, of this process and of the broker."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._own = time.process_time()
        self._broker = cpu_seconds(pid)
        self.began = time.monotonic()

    def rate(self, publishes: int) -> Rate:
        """Return the rate from the start of this clock until now."""
        seconds = time.monotonic() - self.began
        own = (time.process_time() - self._own) / seconds
        return Rate(publishes, seconds, own, (cpu_seconds(self._pid) - self._broker) / seconds)


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
