"""A timer of the kernel as a file: it becomes readable at each tick, to some microseconds."""

from __future__ import annotations

import ctypes
import os
from typing import Final

# From <sys/timerfd.h> and <time.h>; the module ``os`` has them from Python 3.13 on.
CLOCK_MONOTONIC: Final = 1
TFD_NONBLOCK: Final = 0o4000
TFD_CLOEXEC: Final = 0o2000000
TFD_TIMER_ABSTIME: Final = 1
NANOSECONDS: Final = 1_000_000_000
COUNT_BYTES: Final = 8

_libc = ctypes.CDLL(None, use_errno=True)


class Ticks:
    """Ticks at a fixed interval in nanoseconds."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self.file: int = _libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self.file < 0:
            raise OSError(ctypes.get_errno(), "a timer could not be made")

    def begin(self, first: int) -> None:
        """Tick at ``first``, by the monotonic clock, and at every interval after it."""
        times = (*divmod(self._interval, NANOSECONDS), *divmod(first, NANOSECONDS))
        specification = (ctypes.c_long * 4)(*times)
        flags = TFD_TIMER_ABSTIME
        if _libc.timerfd_settime(self.file, flags, ctypes.byref(specification), None) < 0:
            raise OSError(ctypes.get_errno(), "a timer could not be set")

    def read(self) -> None:
        """Take the ticks that have passed, so that the file waits for the next."""
        try:
            os.read(self.file, COUNT_BYTES)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Close the file."""
        os.close(self.file)
