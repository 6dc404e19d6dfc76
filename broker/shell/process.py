"""The process of the broker: its background tasks, its clock, and its memory."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

from broker.filter.memberships_memory import give_back_memory

log = logging.getLogger(__name__)

RESTART_SECONDS: Final = 1.0
# Of glibc's mallopt.
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
LARGE_BLOCK: Final = 256 * 1024

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


async def run_with_restarts(
    work: Work, name: str, restart_seconds: float = RESTART_SECONDS
) -> None:
    """Run the work until it is done or cancelled; start it again after an unexpected error.

    Without this the broker would continue and, for example, never follow another generation.
    """
    while True:
        try:
            await work()
        except Exception:
            log.exception("%s failed and is started again", name)
            await asyncio.sleep(restart_seconds)
        else:
            return


def steady_clock() -> Callable[[], float]:
    """Return a clock that starts at the present wall time and then runs monotonically."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


def tune_malloc() -> None:
    """Have large blocks returned to the system as soon as they are freed.

    To be called before the first thread. By default glibc soon takes large blocks from the heap,
    where they leave holes, and gives every thread a heap that never shrinks. The memory for
    loading a generation would then stay, in addition to the generation itself.
    """
    limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit is not None:
        limit(_M_ARENA_MAX, 1)
        limit(_M_MMAP_THRESHOLD, LARGE_BLOCK)


def freeze_gc() -> None:
    """Exclude all present objects from garbage collection, because they were loaded to stay.

    A hundred thousand subscriptions are a million objects. The collector would stop the broker
    for a tenth of a second each time that it scans them, and never find anything.
    """
    gc.collect()
    gc.freeze()
    give_back_memory()
