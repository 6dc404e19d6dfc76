"""``spaps resolve --subscriptions``: a file of subscriptions into a Parquet file, without Spark."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.markup import escape

from schemas.errors import DescriptorError, NoReferenceError, NothingResolvedError
from schemas.membership import PEID, STAGE_NO, SUB_ID
from spaps.cli.neighborhood_input import UnresolvedSubscription, read_subscriptions
from spaps.cli.output import PhaseProgress, output_file, printable, remarks, results
from spatial_udfs.entity_keys import NamedPositions
from spatial_udfs.exact.exact_resolver import ExactResolver, Resolution, resolve_named
from world.snapshot import load_snapshot

SCHEMA: Final = pa.schema(
    [
        pa.field(SUB_ID, pa.int64(), nullable=False),
        pa.field(PEID, pa.int64(), nullable=False),
        pa.field(STAGE_NO, pa.int32(), nullable=False),
    ]
)
# Rows wait until they fill a row group, so that many small subscriptions read as one block.
ROWS_AT_ONCE: Final = 1_000_000


def resolve_many(subscriptions: Path, out: Path, world: str, version: int | None) -> None:
    """Write the memberships of all subscriptions that can be resolved, and list the others."""
    started = time.perf_counter()
    good, unresolved = read_subscriptions(subscriptions)
    with PhaseProgress() as progress:
        progress("loading the world", 0, None)
        table = load_snapshot(world, version)
        resolver = ExactResolver(table)
        known = NamedPositions(table, (each.neighborhood for each in good))
        resolved = 0
        lacking: list[UnresolvedSubscription] = []
        with MembershipFile(out) as memberships:
            for done, subscription in enumerate(good):
                progress("resolving", done, len(good))
                try:
                    found = resolve_named(resolver, table, subscription.neighborhood, known)
                except (DescriptorError, NoReferenceError) as error:
                    unresolved.append(
                        UnresolvedSubscription(f"subId {subscription.sub_id}", str(error))
                    )
                    continue
                if found.missing:
                    shown = ", ".join(map(str, found.missing))
                    reason = f"not in world version {table.version}: {shown}"
                    lacking.append(UnresolvedSubscription(f"subId {subscription.sub_id}", reason))
                memberships.add(subscription.sub_id, found.resolution)
                resolved += 1
            if not resolved:
                raise NothingResolvedError(_nothing(subscriptions, unresolved, table.version))
    for what, entries in (("missing reference", lacking), ("unresolved", unresolved)):
        for entry in entries:
            reason = escape(printable(entry.reason))
            remarks().print(f"[yellow]{what}:[/] {entry.where}: {reason}", soft_wrap=True)
    results().print(
        f"{resolved:,} of {resolved + len(unresolved):,} subscriptions resolved on world version "
        f"{table.version}: {memberships.rows:,} rows in {escape(printable(str(out)))}, "
        f"{time.perf_counter() - started:.1f} s",
        soft_wrap=True,
    )


def _nothing(subscriptions: Path, unresolved: list[UnresolvedSubscription], version: int) -> str:
    if not unresolved:
        return f"{subscriptions}: there is no subscription in it, and nothing was written"
    [first, *_] = unresolved
    return (
        f"{subscriptions}: none of the {len(unresolved):,} subscriptions could be resolved on "
        f"world version {version}, and nothing was written; such as {first.where}: {first.reason}"
    )


class MembershipFile:
    """A Parquet file of membership rows; it appears when all rows are written, or not at all."""

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
        """Add the visible rows of one subscription."""
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
