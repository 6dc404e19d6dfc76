"""Membership rows as a Parquet file that is there completely or not at all."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.membership import PEID, STAGE_NO, SUB_ID
from spaps.cli.output_file import output_file
from spatial_udfs.exact.exact_resolver import Resolution

SCHEMA: Final = pa.schema(
    [
        pa.field(SUB_ID, pa.int64(), nullable=False),
        pa.field(PEID, pa.int64(), nullable=False),
        pa.field(STAGE_NO, pa.int32(), nullable=False),
    ]
)
# Rows are held back until they fill a row group: many small subscriptions read as one block.
ROWS_AT_ONCE: Final = 1_000_000


class MembershipFile:
    """Rows of one subscription after the other; the file appears when all are in."""

    def __init__(self, path: Path) -> None:
        self._output = output_file(path)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self.rows = 0

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            draft = opened.enter_context(self._output)
            self._writer = pq.ParquetWriter(draft, SCHEMA, compression="zstd")
            self._opened = opened.pop_all()
        return self

    def add(self, sub_id: int, resolution: Resolution) -> None:
        """The visible rows of one subscription."""
        peids, stage_numbers = resolution.rows()
        columns = [np.full(len(peids), sub_id, np.int64), peids, stage_numbers]
        batch = pa.record_batch([pa.array(column) for column in columns], schema=SCHEMA)
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._waiting_rows >= ROWS_AT_ONCE:
            self._write()

    def _write(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting, SCHEMA))
        self._waiting, self._waiting_rows = [], 0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._opened:
            if error is not None:
                with suppress(OSError):
                    self._writer.close()
                raise error
            self._write()
            self._writer.close()
