"""Background tasks that run as long as the broker, and the clock that it uses."""

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
    """Run the work until it is done or cancelled; start it again after an unexpected error.

    Without this the broker would continue and, for example, never follow another generation.
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
    """Return a clock that starts at the present wall time and then runs monotonically."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()
