"""Locks in folders: one import or run at a time; the error of a second one names the first."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from schemas.errors import RunBusyError, SpapsError, WorldError
from schemas.world_places import local_folder

IMPORT_LOCK: Final = ".import.lock"
RUN_LOCK: Final = ".run.lock"
SECONDS_TO_SIGN: Final = 5.0


@contextmanager
def named_lock(path: Path, busy: Callable[[str], SpapsError], what: str = "") -> Iterator[None]:
    """Hold the lock file; if another process holds it, raise ``busy(holder)``.

    ``what`` names the work in the error that a second process gets. The operating system frees the
    lock when its holder ends, even if it is killed.
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
        _sign(lock, path, what)
        try:
            yield
        finally:
            # Emptied while still held, so that the next holder is never reported by this name.
            lock.truncate(0)


def _sign(lock: TextIO, path: Path, what: str) -> None:
    """Write into the lock file who holds it."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    named = f"{what}, " if what else ""
    line = f"{named}process {os.getpid()} on {socket.gethostname()} since {since}\n"
    try:
        lock.truncate(0)
        # Without a buffer: what a full disk does not take must not be written again at the end.
        os.write(lock.fileno(), line.encode())
    except OSError as error:
        raise WorldError(f"{path}: {error.strerror or error}") from error


def _other_holder(lock: TextIO) -> str | None:
    """Take the lock and return None, or return who holds it.

    A holder writes its name a moment after it took the lock. Until the name is there, the lock is
    tried again: it may have become free.
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


def import_lock(folder: Path) -> AbstractContextManager[None]:
    """Hold the lock of a world's imports; a WorldError names the holder if it is not free."""

    def busy(holder: str) -> WorldError:
        return WorldError(f"world {folder} is being imported into by {holder}")

    return named_lock(folder / IMPORT_LOCK, busy)


def output_lock(out: str, what: str) -> AbstractContextManager[None]:
    """Hold the lock of an output folder; a second run gets a RunBusyError that names the first.

    An object store has no lock. There the commit of the second run fails (``commit_version``).
    """
    folder = local_folder(out)
    if folder is None:
        return nullcontext()

    def busy(holder: str) -> RunBusyError:
        return RunBusyError(f"another run writes into {folder}: {holder}")

    return named_lock(folder / RUN_LOCK, busy, what)
