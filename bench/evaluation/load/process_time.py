"""Processor time of several processes and everything that they have started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from bench.broker.rate import cpu_seconds


def processor_seconds(processes: Iterable[int]) -> float:
    """Return the seconds that these processes and their living descendants have used so far."""
    total = 0.0
    for pid in processes:
        for one in _with_descendants(pid):
            # It may have ended a moment ago.
            with suppress(OSError):
                total += cpu_seconds(one)
    return total


def _with_descendants(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split():
            yield from _with_descendants(int(child))
