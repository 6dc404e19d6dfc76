"""Removes old versions of a world and what killed writers left behind, and joins small files.

Files that a reader may still need, or a writer is about to commit, stay for a day. That is longer
than any run takes (docs/operations.md).
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from schemas import entity
from world.versions.delta_tables import remove_versions_from, versions_in
from world.versions.store import PARTITIONED, SCHEMAS, WorldStore

# Longer than any run that reads files of an old state, or has written files not yet committed.
KEEP_FILES_HOURS: Final = 24
# Delta's times are whole milliseconds.
CLOCK_STEP: Final = 0.002
# Tables that the bulk job writes beside the world. The one that marks pairs as complete is first.
DERIVED_TABLES: Final = (
    entity.RELATED_VERSIONS_TABLE,
    entity.RELATED_TABLE,
    entity.PLACED_TABLE,
    entity.RESOLVED_SETS_TABLE,
)
_OF_VERSION: Final = re.compile(rf"{entity.VERSION}=(\d+)/")


def remove_leftovers(store: WorldStore, published: Collection[int]) -> None:
    """Remove all rows and files that belong to no published version.

    In a folder the caller must hold the lock: the files of an import that still runs look like
    leftovers. A complete version is never touched, and the files of a removed version stay for a
    day for its readers.
    """
    newest = max(published, default=0)
    folder = store.local_folder()
    for name in SCHEMAS:
        # Files that a damaged log does not name look like those of a killed import.
        store.check_table(name)
        with store.world_errors(name):
            table = store.find_table(name)
            if table is None:
                continue
            if name in PARTITIONED:
                _remove_rows(table, published, newest, is_locked=folder is not None)
            if folder is not None:
                _remove_unpublished_files(table, folder / name, newest)
            remove_files(table)


def _remove_rows(
    table: DeltaTable, published: Collection[int], newest: int, *, is_locked: bool
) -> None:
    """Remove rows of unpublished versions; without a lock only those before the newest one.

    Without a lock, an import may be writing the next version.
    """
    unpublished = versions_in(table) - {*published}
    remove_versions_from(table, {each for each in unpublished if is_locked or each < newest})


def _remove_unpublished_files(table: DeltaTable, folder: Path, newest: int) -> None:
    """Remove files that no reader can have: never committed, or of an unpublished version.

    The newest version is never removed, so a version beyond it was never published. Delta lists a
    file as dropped from the next millisecond on. What is dropped is asked last, so that a file in
    the first list that was dropped a moment ago is in the second one too.
    """
    unused = table.vacuum(0, enforce_retention_duration=False, full=True)
    time.sleep(CLOCK_STEP)
    dropped = {*table.vacuum(0, enforce_retention_duration=False)}
    for path in unused:
        of_version = _OF_VERSION.match(path)
        is_unpublished = of_version is not None and int(of_version[1]) > newest
        if path not in dropped or is_unpublished:
            (folder / path).unlink(missing_ok=True)


def remove_files(table: DeltaTable) -> None:
    """Remove files that the table has not needed for a day, and those of killed writers."""
    hours = KEEP_FILES_HOURS
    # A dry run comes first: removing writes to the table's log even if there is nothing to do.
    if table.vacuum(hours, enforce_retention_duration=False, full=True):
        table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)


def versions_to_keep(store: WorldStore, newest: int, in_use: Collection[int]) -> frozenset[int]:
    """Return the ``newest`` newest versions, and those in use."""
    there = [facts.version for facts in store.versions()]
    return frozenset({*there[-max(newest, 1) :], *(number for number in there if number in in_use)})


def remove_versions(store: WorldStore, kept: Collection[int]) -> list[int]:
    """Remove all versions but ``kept``, and return the removed ones.

    The rows in ``versions`` go first, so that no reader starts on these versions any more. If the
    process is killed after that, the next removal or import removes the other rows.
    """
    with store.locked():
        published = {facts.version for facts in store.versions()}
        gone = sorted(published - set(kept))
        if gone:
            with store.world_errors():
                remove_versions_from(store.open_table(entity.VERSIONS_TABLE), gone)
        published -= set(gone)
        remove_leftovers(store, published)
        _remove_derived(store, published)
    return gone


def _remove_derived(store: WorldStore, published: Collection[int]) -> None:
    """Remove the bulk job's rows of removed versions; what marks them as complete goes first."""
    for name in DERIVED_TABLES:
        with store.world_errors():
            table = store.find_table(name)
            if table is not None:
                remove_versions_from(table, versions_in(table) - {*published})
                remove_files(table)


# Each run adds a file. So many files are read in about the time of one large file.
MOST_FILES: Final = 64


def compact_small_files(table: DeltaTable, most_files: int = MOST_FILES) -> bool:
    """Join the small files of a table that has more than ``most_files``; return whether it did.

    The rows stay the same, and so do states of the last 24 hours. A run that writes at the same
    moment comes first: then the files are joined by a later run.
    """
    if len(table.file_uris()) <= most_files:
        return False
    with suppress(CommitFailedError):
        joined = bool(table.optimize.compact()["numFilesAdded"])
        table.update_incremental()
        remove_files(table)
        return joined
    return False
