"""Work that runs for as long as the broker does, and the clock that it runs by."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

log = logging.getLogger(__name__)

RESTART_SECONDS: Final = 1.0

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


async def keep_at_it(work: Work, name: str, restart_seconds: float = RESTART_SECONDS) -> None:
    """Do the work until it is done or cancelled; an error that nobody expected begins it anew.

    Without this a broker would serve on and, say, never follow another generation.
    """
    while True:
        try:
            await work()
        except Exception:
            log.exception("%s failed, and begins again", name)
            await asyncio.sleep(restart_seconds)
        else:
            return


def steady_clock() -> Callable[[], float]:
    """Return the wall clock as it is now, carried on by a clock that nobody sets."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()
