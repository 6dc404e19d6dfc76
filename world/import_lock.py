"""One import at a time into one world."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from schemas.errors import WorldError

LOCK_FILE: Final = ".import.lock"


@contextlib.contextmanager
def import_lock(folder: Path) -> Iterator[None]:
    """Hold the world for one import; a WorldError says who holds it when it is not free.

    The system frees the lock when its holder dies, however it dies.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK_FILE).open("a+")
    except OSError as error:
        raise WorldError(f"world {folder}: {error.strerror or error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            raise WorldError(f"world {folder} is being imported into by {holder}") from error
        lock.seek(0)
        lock.truncate()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        lock.write(f"process {os.getpid()} on {socket.gethostname()} since {since}\n")
        lock.flush()
        yield
