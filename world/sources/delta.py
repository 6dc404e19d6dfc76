"""Reads a Delta table with a column of WKB or WKT; its files may have GeoParquet metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import SourceError
from world.long_work import in_threads
from world.sources.candidates import Candidates, Problem
from world.sources.column_rows import batch_candidates
from world.sources.columns import ColumnLayout
from world.sources.parquet import BATCH_ROWS, geometry_column
from world.sources.source_files import delta_files, opened_delta
from world.sources.source_options import SourceOptions
from world.versions.delta_tables import TABLE_ERRORS, arrow_schema, delta_rows, table_reason


def read_layout(path: Path, options: SourceOptions) -> ColumnLayout:
    """Return the layout of the newest state of a table."""
    try:
        schema = arrow_schema(opened_delta(path))
        files = delta_files(path)
        # Writers give all files the same metadata, or none.
        metadata = (pq.read_schema(files[0]).metadata if files else None) or {}
    except TABLE_ERRORS as error:
        raise SourceError(f"{path}: {table_reason(error)}") from error
    geometry = geometry_column(str(path), schema, metadata, options)
    return ColumnLayout.of_schema(str(path), str(path), schema, geometry, options)


def read_batches(path: Path, layout: ColumnLayout) -> Iterator[tuple[Candidates, list[Problem]]]:
    """Yield the rows of a table, some thousands at a time, in the order of its files."""
    try:
        rows = delta_rows(opened_delta(path), layout.columns())
        ends = np.cumsum([0, *(len(batch) for batch in rows.to_batches(BATCH_ROWS))])
        numbered = zip(rows.to_batches(BATCH_ROWS), ends, strict=False)
        yield from in_threads(
            lambda each: batch_candidates(each[0], layout, each[1] + np.arange(len(each[0]))),
            numbered,
        )
    except (*TABLE_ERRORS, pa.ArrowException) as error:
        raise SourceError(f"{path}: {table_reason(error)}") from error
