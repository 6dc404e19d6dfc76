"""Finds the folders of worlds and of their local state; a place is a path or a URI."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

FOLDER: Final = "redis"
CONTROL_SOCKET: Final = "broker.sock"
STATE_VARIABLE: Final = "XDG_STATE_HOME"
_LOCAL: Final = "file://"


def local_folder(place: str) -> Path | None:
    """Return the local path of a place; None if it is in an object store."""
    if place.startswith(_LOCAL):
        return Path(place.removeprefix(_LOCAL))
    return None if "://" in place else Path(place)


def stored_place(place: str) -> str:
    """Return the place in a form that is valid in any folder: an absolute path or the URI."""
    folder = local_folder(place)
    return place if folder is None else os.path.abspath(folder)  # noqa: PTH100 - keeps links


def world_folder(world: str) -> Path | None:
    """Return the absolute folder of a world, links resolved; None in an object store."""
    folder = local_folder(world)
    return None if folder is None else folder.resolve()


def embedded_place(world: str) -> Path:
    """Return the folder of a world's embedded Redis: inside the world's folder.

    A world in an object store has no folder. Its Redis is on this machine, in the user's state
    folder (XDG_STATE_HOME, else ~/.local/state), under a name derived from the world's URI.
    """
    folder = world_folder(world)
    if folder is not None:
        return folder / FOLDER
    return _user_folder() / f"{FOLDER}-{_digest(world.rstrip('/'))}"


def control_place(world: str) -> Path:
    """Return the path of the control socket of a world's broker, in the user's state folder.

    It is not in the world's folder, because people copy that, and not every program can copy a
    socket.
    """
    folder = world_folder(world)
    name = world.rstrip("/") if folder is None else str(folder)
    return _user_folder() / f"{_digest(name)}-{CONTROL_SOCKET}"


def _user_folder() -> Path:
    base = os.environ.get(STATE_VARIABLE)
    if base:
        return Path(base).absolute() / "spaps"
    try:
        return Path.home() / ".local" / "state" / "spaps"
    except RuntimeError:  # a container may run as a user without an entry in the system
        return Path(tempfile.gettempdir()) / f"spaps-{os.getuid()}"


def _digest(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
