"""What did not go as a subscriber meant it: subscriptions without result, and remarks on others.

Tasks make the rows and write them; of the rows themselves only the first come to the driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.pipeline.exchange import DRIVER, Sent
from schemas.errors import NoReferenceError
from schemas.language.references import named_words
from schemas.membership import SUB_ID
from spatial_udfs.batch.descriptor_parts import DescriptorPart
from spatial_udfs.batch.slice_references import NOTHING_BOUND, SliceReferences
from spatial_udfs.batch.subscription_parts import BadRow
from spatial_udfs.entity_table import Int64s
from spatial_udfs.position_sets import spread_out
from world.lake.bulk_tables import KIND, PROBLEMS, WHERE
from world.lake.lake_tables import LakeTable, NewFile
from world.lake.scratch import Scratch
from world.subscriptions.jsonl_fast_path import RowPlaces

# Kinds of problems; the first three leave a subscription without result.
UNREADABLE: Final = "unreadable"
WRONG_DESCRIPTOR: Final = "wrong descriptor"
NO_REFERENCE: Final = "no reference"
MISSING_REFERENCE: Final = "missing reference"
ALWAYS_EMPTY: Final = "always empty"
UNRESOLVED: Final = (UNREADABLE, WRONG_DESCRIPTOR, NO_REFERENCE)

_ORDER: Final = [(KIND, "ascending"), (SUB_ID, "ascending"), (WHERE, "ascending")]
_BEFORE_ALL: Final = -(2**63)
_ROWS_AT_ONCE: Final = 100_000
_SHOWN_REFERENCES: Final = 5


class WrittenProblems(NamedTuple):
    """What a task has written, and the first of its rows: those without result, and remarks."""

    files: list[NewFile]
    counts: Counter[str]
    unresolved: pa.Table
    remarks: pa.Table


class SliceWork(NamedTuple):
    """A slice, by the files of its descriptors and of its references that do not exist.

    ``named``: the file of its keys, names and places, "" where nothing is wrong with them.
    """

    descriptors: str
    missing: list[str]
    named: str


class ProblemTask:
    """Writes the problems of a slice and lists the first of them."""

    def __init__(
        self, scratch: Scratch, table: LakeTable, version: int, places: RowPlaces, listed: int
    ) -> None:
        self._scratch = scratch
        self._table = table
        self._version = version
        self._places = places
        self._listed = listed

    def __call__(self, work: SliceWork) -> Iterator[Sent]:
        """Write the problems of one slice."""
        counts: Counter[str] = Counter()
        first = [PROBLEMS.empty_table()] * 2

        def noted(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in rows:
                kind = batch.column(KIND)[0].as_py()
                counts[kind] += len(batch)
                at = 0 if kind in UNRESOLVED else 1
                table = pa.Table.from_batches([batch])
                first[at] = first_rows([first[at], table], self._listed)
                yield batch

        parts: list[DescriptorPart] = self._scratch.get(work.descriptors)
        lacking = [np.empty(0, np.int64), *(self._scratch.get(path) for path in work.missing)]
        missing = np.concatenate(lacking)
        named = self._scratch.get(work.named) if work.named else NOTHING_BOUND
        rows = chain.from_iterable(
            chain(
                bad_rows(part.bad, self._places),
                descriptor_rows(part, missing, self._version, named),
            )
            for part in parts
        )
        files = self._table.write(self._version, None, noted(rows), PROBLEMS)
        yield DRIVER, WrittenProblems(files, counts, *first)


def first_rows(tables: Sequence[pa.Table], count: int) -> pa.Table:
    """The first rows of all, by kind, number and place; rows without a number come first."""
    every = pa.concat_tables([PROBLEMS.empty_table(), *tables])
    at = every.schema.get_field_index(SUB_ID)
    keys = every.set_column(at, SUB_ID, pc.fill_null(every.column(SUB_ID), _BEFORE_ALL))
    return every.take(pc.sort_indices(keys, sort_keys=_ORDER)[:count])


def bad_rows(bad: Sequence[BadRow], places: RowPlaces) -> Iterator[pa.RecordBatch]:
    """Rows of what is no subscription."""
    for at in range(0, len(bad), _ROWS_AT_ONCE):
        part = bad[at : at + _ROWS_AT_ONCE]
        where = [places.where(row.place, row.sub_id) for row in part]
        yield _batch(
            UNREADABLE,
            pa.array(where, pa.string()),
            pa.array([row.sub_id for row in part], pa.int64()),
            pa.array([row.reason for row in part], pa.string()),
        )


def descriptor_rows(
    part: DescriptorPart, missing: Int64s, version: int, named: SliceReferences = NOTHING_BOUND
) -> Iterator[pa.RecordBatch]:
    """One row for each subscription that has a descriptor with something to say about it."""
    wrong = {
        of: named.errors[text]
        for of, texts in part.named.items()
        for text in texts
        if text in named.errors
    }
    yield from _of_descriptors(part, WRONG_DESCRIPTOR, list((part.errors | wrong).items()))
    unknown = {
        of: lacking
        for of, texts in part.named.items()
        if (lacking := [named_words(text) for text in texts if text in named.unknown])
    }
    none_left, some_missing = (
        [(of, reason) for of, reason in found if of not in wrong]
        for found in _missing_references(part, missing, unknown, version)
    )
    yield from _of_descriptors(part, NO_REFERENCE, none_left)
    yield from _of_descriptors(part, MISSING_REFERENCE, some_missing)
    warnings = [(of, warning) for of, found in part.warnings.items() for warning in found]
    yield from _of_descriptors(part, ALWAYS_EMPTY, warnings)


def _missing_references(
    part: DescriptorPart, lacking: Int64s, unknown: dict[int, list[str]], version: int
) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Descriptors with no reference that exists, and those with some; each with its sentence.

    ``unknown`` are the keys, names and places that do not, by descriptor.
    """
    none_left, some_missing = [], []
    is_missing = np.isin(part.refs, lacking)
    owners = np.repeat(np.arange(len(part.ref_starts) - 1), np.diff(part.ref_starts))
    for of in sorted({*owners[is_missing].tolist(), *unknown}):
        refs = slice(part.ref_starts[of], part.ref_starts[of + 1])
        missing = [*part.refs[refs][is_missing[refs]].tolist(), *unknown.get(of, [])]
        if len(missing) == refs.stop - refs.start + len(part.named.get(of, [])):
            # The sentence that a live subscriber gets.
            none_left.append((of, str(NoReferenceError(tuple(missing), version))))
        else:
            more = " …" if len(missing) > _SHOWN_REFERENCES else ""
            shown = ", ".join(map(str, missing[:_SHOWN_REFERENCES]))
            some_missing.append((of, f"not in world version {version}: {shown}{more}"))
    return none_left, some_missing


def _of_descriptors(
    part: DescriptorPart, kind: str, reasons: Sequence[tuple[int, str]]
) -> Iterator[pa.RecordBatch]:
    """The reason for each subscription that has such a descriptor, some of them at once."""
    texts = pa.array([reason for _, reason in reasons], pa.string())
    of = np.array([of for of, _ in reasons], np.int64)
    uses = part.starts[of + 1] - part.starts[of]
    reason_of, rows = spread_out(part.starts[of], uses)
    for at in range(0, len(rows), _ROWS_AT_ONCE):
        some = slice(at, at + _ROWS_AT_ONCE)
        numbers = pa.array(part.sub_ids[rows[some]])
        where = pc.binary_join_element_wise("subId", numbers.cast(pa.string()), " ")
        yield _batch(kind, where, numbers, texts.take(pa.array(reason_of[some])))


def _batch(
    kind: str, where: pa.StringArray, numbers: pa.Int64Array, reasons: pa.StringArray
) -> pa.RecordBatch:
    kinds = pa.repeat(pa.scalar(kind), len(numbers))
    return pa.record_batch([kinds, where, numbers, reasons], schema=PROBLEMS)
