"""One run at a time in one output folder."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final

from schemas.errors import RunBusyError
from schemas.world_places import local_folder
from world.named_lock import named_lock

LOCK_FILE: Final = ".run.lock"


def output_lock(out: str, what: str) -> AbstractContextManager[None]:
    """Keep other runs out of a folder; a second one gets a RunBusyError that names the first.

    An object store has no lock. There the commit of the second run fails (``version_commit``).
    """
    folder = local_folder(out)
    if folder is None:
        return nullcontext()

    def busy(holder: str) -> RunBusyError:
        return RunBusyError(f"another run writes into {folder}: {holder}")

    return named_lock(folder / LOCK_FILE, busy, what)
