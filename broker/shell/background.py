"""What runs beside the clients for as long as the broker does."""

from __future__ import annotations

import asyncio
import logging
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
