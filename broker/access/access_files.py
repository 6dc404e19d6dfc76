"""Access files, read again when they change. A file that cannot be read denies everything."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from schemas.errors import SettingsError

log = logging.getLogger(__name__)

Content = TypeVar("Content")
# Modification time, size and inode: together they change with every way of writing a file.
Fingerprint = tuple[int, int, int] | None


class WatchedFile(Generic[Content]):
    """The content of a file, or ``denial`` whenever it cannot be read or understood."""

    def __init__(self, path: Path, read: Callable[[Path], Content], denial: Content) -> None:
        self.path = path
        self._read = read
        self._denial = denial
        self._seen: Fingerprint = None
        self._read_at: Fingerprint = None
        self.content = denial
        # What is wrong with the file at present: it denies everything then.
        self.problem: str | None = None
        self._load()

    @property
    def is_broken(self) -> bool:
        """Whether it denies everything because it cannot be read or understood."""
        return self.problem is not None

    def reload(self) -> None:
        """Read the file now, whether it changed or not; log a problem once."""
        before = self.problem
        self._load()
        if self.problem is not None and self.problem != before:
            log.error("access denied to everybody until this is repaired: %s", self.problem)

    def _load(self) -> None:
        self._seen = self._read_at = self._fingerprint()
        try:
            self.content = self._read(self.path)
        except SettingsError as error:
            self.content = self._denial
            if isinstance(error.__cause__, OSError):
                # Perhaps no file descriptor was free, so the next check reads it again.
                self._read_at = None
            self.problem = str(error)
        else:
            self.problem = None

    def reload_if_changed(self) -> bool:
        """Read the file if it changed, and did not change again since the last check.

        An editor may write in several steps. A half-written file would deny, and then queued
        messages for readers without a right would be dropped.
        """
        now = self._fingerprint()
        settled = now == self._seen
        self._seen = now
        if now == self._read_at or not settled:
            return False
        self.reload()
        return True

    def _fingerprint(self) -> Fingerprint:
        try:
            facts = self.path.stat()
        except OSError:
            return None
        return facts.st_mtime_ns, facts.st_size, facts.st_ino
