"""Where the embedded Redis and the broker's socket of a world lie, wherever a command starts."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

FOLDER: Final = "redis"
CONTROL_SOCKET: Final = "broker.sock"
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
    """Return the path of the control socket of a world's broker: in the user's folder of states.

    Not in the world's folder: people copy that one, and not every program can copy a socket.
    """
    folder = world_folder(world)
    name = world.rstrip("/") if folder is None else str(folder)
    return _user_folder() / f"{_digest(name)}-{CONTROL_SOCKET}"


def world_folder(world: str) -> Path | None:
    """Return the absolute folder of a world, links followed; None in an object store."""
    if world.startswith(_LOCAL):
        return Path(world.removeprefix(_LOCAL)).resolve()
    return None if "://" in world else Path(world).resolve()


def _user_folder() -> Path:
    base = os.environ.get(STATE_VARIABLE)
    if base:
        return Path(base).absolute() / "spaps"
    try:
        return Path.home() / ".local" / "state" / "spaps"
    except RuntimeError:  # a container may run as a user that the system does not know
        return Path(tempfile.gettempdir()) / f"spaps-{os.getuid()}"


def _digest(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
