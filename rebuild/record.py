"""Records the steps of rebuilds in files, so that a killed rebuild can go on.

Each rebuild has a folder with ``record.json`` and the members that it resolved. The record is
replaced as a whole after each step, so it names exactly the complete steps.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from schemas.errors import RebuildBusyError, WorldError
from world.locks import named_lock
from world.memberships.run_commits import new_run_id

LOCK_FILE: Final = ".rebuild.lock"
RECORD_FILE: Final = "record.json"

# Steps in their order.
IMPORT: Final = "import"
COMPARE: Final = "compare"
RESOLVE: Final = "resolve"
PUSH: Final = "push"
CLEAN: Final = "clean"

# Kinds.
REBUILD: Final = "rebuild"
ROLLBACK: Final = "rollback"

# Outcomes. A killed rebuild has none until the next rebuild reads its record.
COMPLETE: Final = "complete"
FAILED: Final = "failed"
ABANDONED: Final = "abandoned"


class RebuildRecord:
    """The record of one rebuild or rollback; ``steps`` has the facts of each complete step."""

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        self.folder = folder
        self._content = content

    @property
    def number(self) -> int:
        """Return its number, from 1."""
        return int(self._content["rebuild"])

    @property
    def kind(self) -> str:
        """Return ``rebuild`` or ``rollback``."""
        return str(self._content["kind"])

    @property
    def version(self) -> int:
        """Return its world version."""
        return int(self._content["version"])

    @property
    def run(self) -> str:
        """Return the id of its memberships in Delta and in Redis; "" in old records."""
        return str(self._content.get("run", ""))

    @property
    def started_at(self) -> datetime:
        """Return when it first began."""
        return datetime.fromisoformat(self._content["startedAt"])

    @property
    def outcome(self) -> str | None:
        """Return COMPLETE, FAILED, ABANDONED, or None while it runs and after a kill."""
        found = self._content["outcome"]
        return None if found is None else str(found)

    @property
    def error(self) -> str:
        """Return why it failed; empty when it did not."""
        return str(self._content["error"])

    @property
    def steps(self) -> dict[str, dict[str, Any]]:
        """Return the facts of the complete steps."""
        steps: dict[str, dict[str, Any]] = self._content["steps"]
        return steps

    def note(self, step: str, seconds: float, **facts: Any) -> None:
        """Note that a step is complete."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.steps[step] = {"at": at, "seconds": round(seconds, 3), **facts}
        self.save()

    def end(self, outcome: str, error: str = "") -> None:
        """Note how it ended."""
        self._content["outcome"], self._content["error"] = outcome, error
        self.save()

    def summary(self) -> str:
        """Return one line about a rebuild that has switched."""
        pushed = self.steps[PUSH]
        seconds = ", ".join(f"{step} {facts['seconds']:.1f}" for step, facts in self.steps.items())
        return (
            f"{self.kind} {self.number}: world version {self.version} is in force as generation "
            f"{pushed['generation']} ({pushed['pairs']:,} pairs; seconds: {seconds})"
        )

    def save(self) -> None:
        """Replace the record on the disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{RECORD_FILE}.part"
        with part.open("w", encoding="utf-8") as file:
            json.dump(self._content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.folder / RECORD_FILE)
        _sync(self.folder)


class RebuildRecords:
    """All records under one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[RebuildRecord]:
        """Return every record, oldest first."""
        return sorted(self._found(), key=lambda record: record.number)

    def exclusive(self) -> AbstractContextManager[None]:
        """Return a context with the lock of rebuilds; RebuildBusyError says who has it."""

        def busy(holder: str) -> RebuildBusyError:
            return RebuildBusyError(f"another rebuild runs: {holder}")

        return named_lock(self.folder / LOCK_FILE, busy)

    def unfinished(self, kind: str, version: int) -> RebuildRecord | None:
        """Return the newest record, if kind and version agree and it is not complete."""
        records = self.all()
        if not records or records[-1].outcome == COMPLETE:
            return None
        last = records[-1]
        return last if (last.kind, last.version) == (kind, version) else None

    def begin(self, kind: str, version: int) -> RebuildRecord:
        """Make a record; it is on the disk before the rebuild does anything."""
        records = self.all()
        for record in records:
            if record.outcome is None:
                record.end(ABANDONED, "killed, and another one began instead")
        number = records[-1].number + 1 if records else 1
        content = {
            "rebuild": number,
            "kind": kind,
            "version": version,
            "run": new_run_id(),
            "startedAt": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "by": f"process {os.getpid()} on {socket.gethostname()}",
            "steps": {},
            "outcome": None,
            "error": "",
        }
        record = RebuildRecord(self.folder / f"{number:08d}", content)
        record.save()
        return record

    def remove(self, record: RebuildRecord) -> None:
        """Remove a record; its text goes first, and without it the rest is not read."""
        (record.folder / RECORD_FILE).unlink(missing_ok=True)
        shutil.rmtree(record.folder, ignore_errors=True)

    def remove_leftovers(self) -> None:
        """Remove folders without a record, left by a killed removal."""
        for folder in self._folders():
            if not (folder / RECORD_FILE).exists():
                shutil.rmtree(folder, ignore_errors=True)

    def _folders(self) -> Iterator[Path]:
        if self.folder.is_dir():
            yield from (path for path in self.folder.iterdir() if path.name.isdecimal())

    def _found(self) -> Iterator[RebuildRecord]:
        for folder in self._folders():
            path = folder / RECORD_FILE
            if not path.exists():
                continue
            try:
                yield RebuildRecord(folder, json.loads(path.read_text("utf-8")))
            except (OSError, ValueError) as error:
                raise WorldError(f"the record {path} cannot be read: {error}") from error


def _sync(folder: Path) -> None:
    """Write the folder itself to the disk: before that a renamed file can be lost."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
