"""The memory of the process: what the garbage collector scans, and what the system gets back."""

from __future__ import annotations

import ctypes
import gc
from typing import Final

# Of glibc's mallopt.
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
LARGE_BLOCK: Final = 256 * 1024


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


def give_back_memory() -> None:
    """Return freed pages to the system, where the C library can.

    A replaced generation leaves millions of bytes free in the middle of the heap, which glibc
    would keep.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
