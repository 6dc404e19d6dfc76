"""What a killed import or removal left behind: rows without a version, files without a row."""

from __future__ import annotations

from collections.abc import Collection

from deltalake import DeltaTable

from schemas import entity
from world.store import PARTITIONED, SCHEMAS, WorldStore


def remove_leftovers(store: WorldStore, published: Collection[int]) -> None:
    """Clear the tables of everything that belongs to none of the versions that are there.

    Only for who holds the lock: the files of an import that still runs look the same. What a
    complete version consists of is never touched, so readers are not disturbed.
    """
    for name in SCHEMAS:
        with store.world_errors():
            if DeltaTable.is_deltatable(store.table_uri(name)):
                _clear(store.open_table(name), published if name in PARTITIONED else None)


def _clear(table: DeltaTable, published: Collection[int] | None) -> None:
    if published is not None:
        written = {int(partition[entity.VERSION]) for partition in table.partitions()}
        nobodys = sorted(written - {*published})
        if nobodys:
            table.delete(f"{entity.VERSION} in ({', '.join(map(str, nobodys))})")
    # Looked for first: removing writes to the table's log even when there is nothing to do.
    if table.vacuum(retention_hours=0, enforce_retention_duration=False, full=True):
        table.vacuum(retention_hours=0, enforce_retention_duration=False, full=True, dry_run=False)
