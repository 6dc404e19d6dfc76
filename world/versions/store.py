"""A world on disk or in an object store: its Delta tables and versions.

The row in ``versions`` is written last, so a version exists completely or not at all. Rows that a
killed import left in the other tables have no row there: readers ignore them, and the next import
replaces them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, WriterProperties, write_deltalake
from numpy.typing import NDArray

from schemas import entity
from schemas.errors import WorldError
from schemas.world_places import local_folder
from world.locks import import_lock
from world.versions import version_tables
from world.versions.delta_tables import (
    check_table_folder,
    delta_rows,
    find_table,
    open_table,
    table_errors,
)
from world.versions.version_tables import SourceFacts, VersionFacts, content_checksum

SCHEMAS: Final = {
    entity.ENTITIES_TABLE: version_tables.ENTITIES,
    entity.PROBLEMS_TABLE: version_tables.PROBLEMS,
    entity.VERSIONS_TABLE: version_tables.VERSIONS,
}
PARTITIONED: Final = (entity.ENTITIES_TABLE, entity.PROBLEMS_TABLE)
# Small enough that a lookup by peid skips most of a file, large enough to compress well.
ROW_GROUP_ROWS: Final = 65_536


class WorldStore:
    """The tables under one path: a local folder or a URI that Delta can write to."""

    def __init__(self, path: str) -> None:
        if not str(path).strip():
            raise WorldError("the folder of the world is an empty text: give --world DIR")
        self.path = str(path).rstrip("/") or "/"

    def table_uri(self, table: str) -> str:
        """Return the URI of a table of this world."""
        return f"{self.path.rstrip('/')}/{table}"

    def local_folder(self) -> Path | None:
        """Return the world's folder; None if it is in an object store."""
        return local_folder(self.path)

    def versions(self) -> list[VersionFacts]:
        """Return all complete versions, oldest first; an empty list if there is no world yet."""
        self.check_table(entity.VERSIONS_TABLE)
        with self.world_errors(entity.VERSIONS_TABLE):
            table = self.find_table(entity.VERSIONS_TABLE)
            rows = [] if table is None else delta_rows(table).to_pylist()
        return sorted((VersionFacts.from_row(row) for row in rows), key=lambda facts: facts.version)

    def latest(self) -> VersionFacts:
        """Return the newest complete version; WorldError if there is none."""
        versions = self.versions()
        if not versions:
            raise WorldError(f"no world at {self.path}: import one with 'spaps import'")
        return versions[-1]

    def facts_of(self, version: int | None) -> VersionFacts:
        """Return the facts of one version; of the newest for None."""
        if version is None:
            return self.latest()
        versions = self.versions()
        for facts in versions:
            if facts.version == version:
                return facts
        there = ", ".join(str(facts.version) for facts in versions) or "none"
        raise WorldError(f"world {self.path} has no version {version} (there: {there})")

    def entities(self, version: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the entities of one version, without reading other versions or columns."""
        names = version_tables.UNVERSIONED_ENTITIES.names if columns is None else [*columns]
        return self._rows(entity.ENTITIES_TABLE, version, names)

    def some_geometries(self, version: int, count: int) -> NDArray[Any]:
        """Return the WKB of some entities of a version, without reading all of them."""
        some = self._rows(entity.ENTITIES_TABLE, version, [entity.GEOMETRY], most=count)
        shapes: NDArray[Any] = some.column(entity.GEOMETRY).to_numpy()
        return shapes

    def problems(self, version: int) -> pa.Table:
        """Return the problems of the import of one version."""
        names = version_tables.UNVERSIONED_PROBLEMS.names
        return self._rows(entity.PROBLEMS_TABLE, version, names)

    def write_version(
        self,
        entities: pa.Table,
        *,
        srid: int,
        sources: tuple[SourceFacts, ...] = (),
        rules_sha256: str = "",
        problems: pa.Table | None = None,
    ) -> VersionFacts:
        """Write one more version; the entities (UNVERSIONED_ENTITIES) must be valid and unique."""
        problems = (
            version_tables.UNVERSIONED_PROBLEMS.empty_table() if problems is None else problems
        )
        version = self.next_version()
        self.create_tables()
        with ThreadPoolExecutor(1, "checksum") as thread:
            checksum = thread.submit(content_checksum, entities)
            self._replace(entity.ENTITIES_TABLE, version, entities.sort_by(entity.PEID))
            self._replace(entity.PROBLEMS_TABLE, version, problems)
        state = self.state()
        kinds = problems.column(entity.PROBLEM_KIND).value_counts().to_pylist()
        facts = VersionFacts(
            version=version,
            srid=srid,
            created_at=datetime.now(UTC),
            sources=sources,
            rules_sha256=rules_sha256,
            entity_count=entities.num_rows,
            problem_counts={kind["values"]: kind["counts"] for kind in kinds},
            checksum=checksum.result(),
        )
        self.publish(facts, state)
        return facts

    def world_id(self) -> str:
        """Return the id of this world; copies of its folder have the same id."""
        with self.world_errors(entity.VERSIONS_TABLE):
            return str(self.open_table(entity.VERSIONS_TABLE).metadata().id)

    def next_version(self) -> int:
        """Return the number of the next version."""
        versions = self.versions()
        return versions[-1].version + 1 if versions else 1

    def create_tables(self) -> None:
        """Create the missing tables and columns, so that all writers use the same types."""
        with self.world_errors():
            for table, schema in SCHEMAS.items():
                made = DeltaTable.create(
                    self.table_uri(table),
                    schema,
                    mode="ignore",
                    partition_by=[entity.VERSION] if table in PARTITIONED else None,
                )
                there = {field.name for field in made.schema().fields}
                missing = pa.schema([field for field in schema if field.name not in there])
                if len(missing):
                    made.alter.add_columns(list(Schema.from_arrow(missing).fields))

    def state(self) -> dict[str, int]:
        """Return the number of commits of each table, which changes with every write."""
        with self.world_errors():
            return {table: self.open_table(table).version() for table in SCHEMAS}

    def publish(self, facts: VersionFacts, state: dict[str, int]) -> None:
        """Publish a version whose rows are all written.

        ``state`` is the state after writing them. If it has changed since, another import may have
        replaced the rows, and this is an error. A folder has a lock against that; an object store
        has none, so this check stops the second import.
        """
        if self.state() != state:
            raise WorldError(f"world {self.path}: another import has written to it meanwhile")
        row = pa.Table.from_pylist([facts.as_row()], schema=version_tables.VERSIONS)
        with self.world_errors():
            write_deltalake(
                self.open_table(entity.VERSIONS_TABLE),
                row,
                mode="append",
                commit_properties=CommitProperties(max_commit_retries=0),
            )

    def check_table(self, table: str) -> None:
        """Raise WorldError for a table that looks missing because its folder is damaged."""
        folder = self.local_folder()
        if folder is not None:
            check_table_folder(folder / table)

    def open_table(self, table: str) -> DeltaTable:
        """Return a table of this world in its newest state."""
        return open_table(self.table_uri(table))

    def find_table(self, table: str) -> DeltaTable | None:
        """Return a table of this world in its newest state; None if there is none."""
        return find_table(self.table_uri(table))

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Hold the lock of imports into this world; an object store has no lock."""
        folder = self.local_folder()
        return contextlib.nullcontext() if folder is None else import_lock(folder)

    def _rows(
        self, table: str, version: int, columns: list[str], most: int | None = None
    ) -> pa.Table:
        with self.world_errors(table):
            opened = self.open_table(table)
            there = {field.name for field in opened.schema().fields}
            known = [name for name in columns if name in there]
            rows = delta_rows(opened, known, pc.field(entity.VERSION) == version, most)
        # A column that is younger than the table is null.
        for name in columns:
            if name not in there:
                kind = SCHEMAS[table].field(name).type
                rows = rows.append_column(name, pa.nulls(rows.num_rows, kind))
        return rows.select(columns)

    def _replace(self, table: str, version: int, rows: pa.Table) -> None:
        """Write a version's rows, and replace those that a killed import left under its number."""
        numbers = pa.array([version] * rows.num_rows, pa.int64())
        with self.world_errors(table):
            write_deltalake(
                self.table_uri(table),
                rows.add_column(0, entity.VERSION, numbers),
                mode="overwrite",
                predicate=f"{entity.VERSION} = {version}",
                writer_properties=WriterProperties(
                    compression="ZSTD", max_row_group_size=ROW_GROUP_ROWS
                ),
            )

    def world_errors(self, table: str = "") -> contextlib.AbstractContextManager[None]:
        """Turn errors of Delta, Arrow and files into a WorldError about this world."""
        return table_errors(f"world {self.path}" + (f", table {table}" if table else ""))
