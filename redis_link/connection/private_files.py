"""Folders and files that only their owner may read, under any umask."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
# What a server is started with: whatever it creates is its owner's alone.
PRIVATE_UMASK: Final = 0o077


def make_private_folder(folder: Path) -> None:
    """Make the folder, or close one that others may look into."""
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    _close(folder, PRIVATE_FOLDER)


def private_opener(path: str, flags: int) -> int:
    """Open a file that only its owner may read: an ``opener`` for ``open``."""
    return os.open(path, flags, PRIVATE_FILE)


def close_files(folder: Path, patterns: Iterable[str]) -> None:
    """Take from others what they may do with the files and folders that fit the patterns."""
    for pattern in patterns:
        for path in folder.glob(pattern):
            _close(path, PRIVATE_FOLDER if path.is_dir() else PRIVATE_FILE)


def _close(path: Path, mode: int) -> None:
    """Leave alone what others may not touch, what is another user's, and links."""
    status = path.lstat()
    if status.st_mode & 0o077 and status.st_uid == os.getuid() and not path.is_symlink():
        path.chmod(mode)
