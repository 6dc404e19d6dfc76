"""How a job ends: with an exit code, and one line that says why when it is not 0."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from schemas.errors import PushBusyError, RebuildBusyError, RunBusyError, SpapsError

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 2
EXIT_BUSY: Final = 3
EXIT_NOT_CLEAN: Final = 4


def exit_code_of(work: Callable[[], int]) -> int:
    """What the work gives; EXIT_BUSY where another one runs, EXIT_FAILED where it went wrong."""
    try:
        return work()
    except (RebuildBusyError, PushBusyError, RunBusyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BUSY
    except (SpapsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
