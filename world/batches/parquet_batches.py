"""What executors do with Arrow batches of Parquet rows, by the functions of ``world``.

Each batch goes through the very code that an import without Spark runs, so coordinates come
out equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from pyproj import CRS

from schemas import entity
from world.imports.combination import Occurrence, duplicate, repeated_key
from world.imports.extent import extent_of
from world.imports.geometry_checks import readable, storable
from world.imports.projection import project, utm_zones
from world.sources.candidates import Candidates, Problem, ProblemKind, problem_table
from world.sources.column_rows import batch_candidates, row_locator
from world.sources.source_fields import ColumnLayout
from world.sources.source_files import parquet_files
from world.versions import version_tables

# Columns of the raw rows beside those of an entity.
FILE: Final = "file"
ROW_IN_FILE: Final = "rowInFile"
# Where a row stands among all: together they are the order in which the first one wins.
SOURCE_NO: Final = "sourceNo"
ORDINAL: Final = "ordinal"
# Columns of the first row with the same peid, beside a later one.
FIRST: Final = "first_"
# Before the name of a column that rules use.
ATTRIBUTE: Final = "attribute_"

PLACE: Final = pa.schema([(SOURCE_NO, pa.int32()), (ORDINAL, pa.int64())])
# An entity to be when ``kind`` is null, else a problem.
CHECKED: Final = pa.schema(
    [*PLACE, *version_tables.UNVERSIONED_ENTITIES, *version_tables.UNVERSIONED_PROBLEMS.remove(2)]
)
ZONES: Final = pa.schema([("zone", pa.int32()), ("entities", pa.int64())])

EXTENTS: Final = pa.schema([(side, pa.float64()) for side in ("west", "south", "east", "north")])

Batches: TypeAlias = Iterable[pa.RecordBatch]
BatchFunction: TypeAlias = Callable[[Batches], Iterator[pa.RecordBatch]]


def zone_counter(layout: ColumnLayout) -> BatchFunction:
    """Return the task from batches of raw rows to counts of usable geometries by UTM zone."""
    read = _reader(layout)

    def count(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows, _ = read(batch)
            zones = utm_zones(rows.geometries, layout.geometry.crs)
            columns = [list(zones.keys()), list(zones.values())]
            yield _batch(columns, ZONES)

    return count


def extent_reader(crs: CRS) -> BatchFunction:
    """Return the task from batches of entities in a CRS to the boxes around them, in degrees."""

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            shapes = batch.column(entity.GEOMETRY).to_numpy(zero_copy_only=False)
            found = extent_of(shapely.from_wkb(shapes), crs)
            if found is not None:
                yield _batch([[value] for value in astuple(found)], EXTENTS)

    return read


def checker(layout: ColumnLayout, source_no: int, target: CRS) -> BatchFunction:
    """Return the task from batches of raw rows to entities in the target CRS, and problems."""
    read = _reader(layout)

    def check(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows, problems = read(batch)
            clean, found = storable(project(rows, layout.geometry.crs, target), target)
            yield _entity_rows(clean, source_no)
            yield _problem_rows([*problems, *found], source_no)

    return check


def duplicate_namer(sources: list[str]) -> BatchFunction:
    """Return the task from rows whose peid was taken, beside its first row, to problems."""

    def occurrence(row: dict[str, Any], prefix: str) -> Occurrence:
        return Occurrence(
            source=sources[row[prefix + SOURCE_NO]],
            locator=row_locator(row[prefix + ORDINAL]),
            key=row[prefix + entity.KEY],
            categories=row[prefix + entity.CATEGORIES],
            name=row[prefix + entity.NAME],
            geometry=row[prefix + entity.GEOMETRY],
        )

    def name(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            problems = [
                duplicate(row[entity.PEID], occurrence(row, FIRST), occurrence(row, ""))
                for row in batch.to_pylist()
            ]
            yield from problem_table(problems).to_batches()

    return name


def repeated_key_namer(sources: list[str]) -> BatchFunction:
    """Return the task from rows whose key was taken, beside the first of that key, to problems."""

    def name(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            problems = []
            for row in batch.to_pylist():
                first, later = (
                    (sources[row[prefix + SOURCE_NO]], row_locator(row[prefix + ORDINAL]))
                    for prefix in (FIRST, "")
                )
                reason = repeated_key(row[entity.KEY], ", ".join(first))
                kind, peid = ProblemKind.DUPLICATE_KEY, row[entity.PEID]
                problems.append(Problem(kind, True, peid, *later, reason))  # noqa: FBT003
            yield from problem_table(problems).to_batches()

    return name


def with_fixed_names(layout: ColumnLayout) -> ColumnLayout:
    """Return the layout of the frame that ``world_frames.raw_rows`` makes of a source."""
    return replace(
        layout,
        geometry=replace(layout.geometry, name=entity.GEOMETRY),
        peid=entity.PEID if layout.peid else None,
        key=entity.KEY if layout.key else None,
        categories=entity.CATEGORIES,
        name=entity.NAME,
        attributes=tuple((tag, f"{ATTRIBUTE}{tag}") for tag, _ in layout.attributes),
    )


def _reader(
    layout: ColumnLayout,
) -> Callable[[pa.RecordBatch], tuple[Candidates, list[Problem]]]:
    """Return the function that reads a batch as far as it can without the target CRS."""
    first_rows = _first_rows(layout)
    named = with_fixed_names(layout)

    def read(batch: pa.RecordBatch) -> tuple[Candidates, list[Problem]]:
        files = batch.column(FILE).dictionary_encode()
        starts = np.array(
            [first_rows[unquote(urlparse(file).path)] for file in files.dictionary.to_pylist()],
            np.int64,
        )
        ordinals = starts[files.indices.to_numpy()] + batch.column(ROW_IN_FILE).to_numpy()
        rows, problems = batch_candidates(batch, named, ordinals)
        usable, found = readable(rows)
        return usable, [*problems, *found]

    return read


def _first_rows(layout: ColumnLayout) -> dict[str, int]:
    """Return the number of rows before each file of a source."""
    first_rows: dict[str, int] = {}
    rows = 0
    for file in parquet_files(Path(layout.source)):
        first_rows[str(file.resolve())] = rows
        rows += pq.read_metadata(file).num_rows
    return first_rows


def _entity_rows(rows: Candidates, source_no: int) -> pa.RecordBatch:
    table = rows.as_table()
    columns = {
        SOURCE_NO: [source_no] * len(rows),
        ORDINAL: rows.ordinals,
        **{name: table.column(name).combine_chunks() for name in table.column_names},
    }
    return _padded(columns, len(rows))


def _problem_rows(problems: list[Problem], source_no: int) -> pa.RecordBatch:
    table = problem_table(problems)
    columns = {
        SOURCE_NO: [source_no] * len(problems),
        **{name: table.column(name).combine_chunks() for name in table.column_names},
    }
    return _padded(columns, len(problems))


def _padded(columns: dict[str, Any], rows: int) -> pa.RecordBatch:
    return _batch([columns.get(name, [None] * rows) for name in CHECKED.names], CHECKED)


def _batch(columns: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
