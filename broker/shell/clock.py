"""The core's clock: seconds since 1970 that never go back, whatever is done to the wall clock."""

from __future__ import annotations

import time
from collections.abc import Callable


def steady_clock() -> Callable[[], float]:
    """The wall clock as it is now, carried on by a clock that nobody sets."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()
