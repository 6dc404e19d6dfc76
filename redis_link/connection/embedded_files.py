"""Protects the files of the embedded Redis: only their owner may read them, under any umask."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from schemas.errors import RedisLinkError

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
# The server is started with it: only the owner may use what the server creates.
PRIVATE_UMASK: Final = 0o077


def make_private_folder(folder: Path) -> None:
    """Make the folder, or take the rights of others from one that is there."""
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    _close(folder, PRIVATE_FOLDER)


def private_opener(path: str, flags: int) -> int:
    """Open a file that only its owner may read; an ``opener`` for ``open``."""
    return os.open(path, flags, PRIVATE_FILE)


def close_files(folder: Path, patterns: Iterable[str]) -> None:
    """Take the rights of others from files and folders that match the patterns."""
    for pattern in patterns:
        for path in folder.glob(pattern):
            _close(path, PRIVATE_FOLDER if path.is_dir() else PRIVATE_FILE)


def _close(path: Path, mode: int) -> None:
    """Set the mode, unless others have no rights, the owner is another user, or it is a link."""
    status = path.lstat()
    if status.st_mode & 0o077 and status.st_uid == os.getuid() and not path.is_symlink():
        path.chmod(mode)


# The address of a socket has room for about a hundred bytes.
LONGEST_SOCKET_PATH: Final = 100
SOCKET_FILE: Final = "redis.sock"


def socket_path(folder: Path) -> Path:
    """Return the path of the socket in the folder, or in a temporary folder if that is too long."""
    path = folder / SOCKET_FILE
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    short = Path(tempfile.gettempdir()) / f"spaps-{os.getuid()}-{name}"
    short.mkdir(mode=0o700, exist_ok=True)
    status = short.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise RedisLinkError(f"{short} is not a folder of this user alone")
    return short / SOCKET_FILE
