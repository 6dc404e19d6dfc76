"""Old versions of a world go, newest of them stay; readers never see half of one."""

from __future__ import annotations

from collections.abc import Collection

from deltalake import DeltaTable

from schemas import entity
from world.imports.world_import import locked
from world.versions.delta_rows import delta_rows
from world.versions.leftovers import remove_files, remove_leftovers
from world.versions.store import WorldStore

# Made by the bulk job beside the world, where it has run.
DERIVED_TABLES = (
    entity.RELATED_VERSIONS_TABLE,
    entity.RELATED_TABLE,
    entity.PLACED_TABLE,
    entity.RESOLVED_SETS_TABLE,
)


def versions_to_keep(store: WorldStore, newest: int, in_use: Collection[int]) -> frozenset[int]:
    """The newest versions and those that somebody needs."""
    there = [facts.version for facts in store.versions()]
    return frozenset({*there[-max(newest, 1) :], *(number for number in there if number in in_use)})


def remove_versions(store: WorldStore, kept: Collection[int]) -> list[int]:
    """Remove all versions but these; which they were.

    The row in ``versions`` goes first: from then on nobody begins to read them. Whoever is
    killed after that leaves rows without a version, which the next one removes.
    """
    with locked(store):
        published = {facts.version for facts in store.versions()}
        gone = sorted(published - set(kept))
        if gone:
            listed = ", ".join(map(str, gone))
            with store.world_errors():
                store.open_table(entity.VERSIONS_TABLE).delete(f"{entity.VERSION} in ({listed})")
        published -= set(gone)
        remove_leftovers(store, published)
        _remove_derived(store, published)
    return gone


def _remove_derived(store: WorldStore, published: Collection[int]) -> None:
    """Rows of the bulk job about versions that are gone; what marks them as complete goes first."""
    for name in DERIVED_TABLES:
        with store.world_errors():
            if not DeltaTable.is_deltatable(store.table_uri(name)):
                continue
            table = store.open_table(name)
            gone = sorted(_versions_in(table) - {*published})
            if gone:
                table.delete(f"{entity.VERSION} in ({', '.join(map(str, gone))})")
            remove_files(table)


def _versions_in(table: DeltaTable) -> set[int]:
    if table.metadata().partition_columns:
        return {int(partition[entity.VERSION]) for partition in table.partitions()}
    rows = delta_rows(table, [entity.VERSION])
    return {*rows.column(entity.VERSION).to_pylist()}
