"""Joins the small files of tables that grow with every run, and removes those of days ago."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from world.versions.removal import remove_files

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
