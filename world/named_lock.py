"""A lock in a folder whose holder is known by name: one at a time, and the second says who runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from schemas.errors import SpapsError, WorldError

SECONDS_TO_SIGN: Final = 5.0


@contextlib.contextmanager
def named_lock(path: Path, busy: Callable[[str], SpapsError], what: str = "") -> Iterator[None]:
    """Hold the lock file; where it is not free, raise what ``busy`` makes of its holder.

    ``what`` names the work for the line that the second one gets. The system frees the lock when
    its holder dies, however it dies.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("a+")
    except (FileExistsError, NotADirectoryError) as error:
        raise WorldError(f"{path.parent}: is a file, not a folder") from error
    except OSError as error:
        raise WorldError(f"{path.parent}: {error.strerror or error}") from error
    with lock:
        if holder := _other_holder(lock):
            raise busy(holder)
        lock.truncate(0)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        named = f"{what}, " if what else ""
        lock.write(f"{named}process {os.getpid()} on {socket.gethostname()} since {since}\n")
        lock.flush()
        try:
            yield
        finally:
            # Emptied while still held, so that the next holder never goes by this one's name.
            lock.truncate(0)


def _other_holder(lock: TextIO) -> str | None:
    """Take the lock, or say who has it.

    A holder signs a moment after it took the lock. Until then the lock is tried again rather than
    its holder left nameless: it may be free by now.
    """
    deadline = time.monotonic() + SECONDS_TO_SIGN
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip()
            if holder or time.monotonic() > deadline:
                return holder or "another process"
            time.sleep(0.01)
        else:
            return None
