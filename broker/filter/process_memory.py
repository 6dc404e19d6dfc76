"""The memory of the process itself: what the collector looks at, and what the system gets back."""

from __future__ import annotations

import ctypes
import gc
from typing import Final

# Of glibc's mallopt.
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
LARGE_BLOCK: Final = 256 * 1024


def tune_malloc() -> None:
    """Have large blocks returned as soon as they are freed; before the first thread.

    glibc would soon take them from the heap, where they leave holes that nothing fits into, and
    would give every thread a heap of its own, which keeps whatever it needed once. What is read
    while a generation is loaded would so come on top of the generation itself.
    """
    limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit is not None:
        limit(_M_ARENA_MAX, 1)
        limit(_M_MMAP_THRESHOLD, LARGE_BLOCK)


def freeze_gc() -> None:
    """Take what there is for granted: it was loaded to stay.

    A hundred thousand subscriptions are a million objects. The collector would stop the broker
    for a tenth of a second each time that it goes over them, and never find anything.
    """
    gc.collect()
    gc.freeze()
    give_back_memory()


def give_back_memory() -> None:
    """Return freed pages to the system, where the C library can.

    A replaced generation leaves millions of bytes free in the middle of the heap, which glibc
    would keep.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
