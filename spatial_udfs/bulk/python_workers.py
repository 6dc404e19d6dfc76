"""Spark's Python workers between two tasks: what they would do for nothing, left out.

Before each task a worker lets Python look at all archives of its path anew, and Spark's own is
found there under dozens of names: a tenth of a second, longer than many a task. After each it
collects garbage, through everything that was ever imported. A batch has dozens of such tasks.
"""

from __future__ import annotations

import gc
import os
import zipimport
from typing import Final

# Spark says so to workers that take one task after the other.
_REUSED_WORKER: Final = "SPARK_REUSE_WORKER"


def spare_idle_work() -> None:
    """To be called where a task's code is imported; does nothing outside such a worker."""
    if _REUSED_WORKER in os.environ:
        # Archives that came with a job never change. Later Pythons look only when asked for a
        # module that they do not know.
        setattr(zipimport.zipimporter, "invalidate_caches", _leave_as_it_is)  # noqa: B010 - a method
        gc.freeze()


def _leave_as_it_is(_importer: zipimport.zipimporter) -> None:
    """Keep what is known of the archive."""
