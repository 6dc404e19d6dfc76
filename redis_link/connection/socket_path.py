"""The socket file of the embedded Redis: short enough, and its user's alone."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

from schemas.errors import RedisLinkError

# The address of a socket has room for about a hundred bytes.
LONGEST_SOCKET_PATH: Final = 100
SOCKET_FILE: Final = "redis.sock"


def socket_path(folder: Path) -> Path:
    """Return a path in the folder, or in one for temporary files when that one is too long."""
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
