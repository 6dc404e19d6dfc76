"""Where the embedded Redis and the broker's socket of a world lie, wherever a command starts."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

FOLDER: Final = "redis"
CONTROL_SOCKET: Final = "broker.sock"
# The address of a socket has room for about a hundred bytes.
LONGEST_SOCKET_PATH: Final = 100
_LOCAL: Final = "file://"
STATE_VARIABLE: Final = "XDG_STATE_HOME"


def embedded_place(world: str) -> Path:
    """Return the folder of a world's embedded Redis: inside the world's folder.

    A world in an object store has no folder. Its Redis lies on this machine, in the user's folder
    of states (XDG_STATE_HOME, else ~/.local/state), under a name made of the world's URI.
    """
    folder = world_folder(world)
    if folder is not None:
        return folder / FOLDER
    return _user_folder() / f"{FOLDER}-{_digest(world.rstrip('/'))}"


def control_place(world: str) -> Path:
    """Return the path of the control socket of a world's broker: inside the world's folder.

    Where there is no such folder, or its path is too long for a socket, it lies in the user's
    folder of states.
    """
    folder = world_folder(world)
    if folder is not None and folder.is_dir():
        path = folder / CONTROL_SOCKET
        if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
            return path
    name = world.rstrip("/") if folder is None else str(folder)
    return _user_folder() / f"{_digest(name)}-{CONTROL_SOCKET}"


def world_folder(world: str) -> Path | None:
    """Return the absolute folder of a world, links followed; None in an object store."""
    if world.startswith(_LOCAL):
        return Path(world.removeprefix(_LOCAL)).resolve()
    return None if "://" in world else Path(world).resolve()


def _user_folder() -> Path:
    base = os.environ.get(STATE_VARIABLE) or Path.home() / ".local" / "state"
    return Path(base).absolute() / "spaps"


def _digest(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
