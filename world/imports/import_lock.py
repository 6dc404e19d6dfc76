"""One import at a time into one world."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from schemas.errors import WorldError
from world.named_lock import named_lock

LOCK_FILE: Final = ".import.lock"


@contextlib.contextmanager
def import_lock(folder: Path) -> Iterator[None]:
    """Hold the world for one import; a WorldError says who holds it when it is not free."""

    def busy(holder: str) -> WorldError:
        return WorldError(f"world {folder} is being imported into by {holder}")

    with named_lock(folder / LOCK_FILE, busy):
        yield
