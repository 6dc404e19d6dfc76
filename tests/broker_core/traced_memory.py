"""Measures the memory that something holds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable


def traced(work: Callable[[], object]) -> int:
    """The bytes that are held after some work and were not before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = work()
        return tracemalloc.get_traced_memory()[0] - before if kept is not None else 0
    finally:
        tracemalloc.stop()
