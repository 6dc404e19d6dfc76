"""What a killed import or removal left behind: rows without a version, files without a row."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from deltalake import DeltaTable

from schemas import entity
from world.store import PARTITIONED, SCHEMAS, WorldStore

# Longer than any run that reads files of a state, or has written some that are not committed.
KEEP_FILES_HOURS: Final = 24


def remove_leftovers(store: WorldStore, published: Collection[int]) -> None:
    """Clear the tables of everything that belongs to none of the versions that are there.

    Only for who holds the lock: the files of an import that still runs look the same. What a
    complete version consists of is never touched, so readers are not disturbed.
    """
    for name in SCHEMAS:
        # What a damaged log does not name looks like the files of a killed import.
        store.check_table(name)
        with store.world_errors(name):
            if DeltaTable.is_deltatable(store.table_uri(name)):
                _clear(store.open_table(name), published if name in PARTITIONED else None)


def _clear(table: DeltaTable, published: Collection[int] | None) -> None:
    if published is not None:
        written = {int(partition[entity.VERSION]) for partition in table.partitions()}
        nobodys = sorted(written - {*published})
        if nobodys:
            table.delete(f"{entity.VERSION} in ({', '.join(map(str, nobodys))})")
    remove_files(table, older_than_hours=0)


def remove_files(table: DeltaTable, *, older_than_hours: int = KEEP_FILES_HOURS) -> None:
    """Remove files that no state of the table needs, and those that killed writers left."""
    # Looked for first: removing writes to the table's log even when there is nothing to do.
    if table.vacuum(older_than_hours, enforce_retention_duration=False, full=True):
        table.vacuum(older_than_hours, dry_run=False, enforce_retention_duration=False, full=True)
