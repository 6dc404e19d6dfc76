"""Subscriptions of a run, read once: a task that is repeated sees the same ones.

Tasks read the source into files of the scratch folder. Of the subscriptions themselves nothing
comes to the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import pyarrow as pa

from jobs.pipeline.exchange import BLOCK_TYPES, DRIVER, ROWS_IN_TASK, Sent, Tasks, batches_of
from jobs.pipeline.scratch import Scratch
from jobs.pipeline.subscriptions.subscription_lines import RowPlaces, Subscriptions, places_of
from jobs.pipeline.subscriptions.subscription_parts import (
    PartFacts,
    SubscriptionPart,
    by_number,
    each_once,
    facts_of,
    may_share_numbers,
    merged,
)

# Up to so many subscriptions, and so many different descriptors, are taken apart by one task.
FEW_SUBSCRIPTIONS: Final = 1_000_000
FEW_TEXTS: Final = 20_000


class PartFile(NamedTuple):
    """A part of the subscriptions in a file of the scratch folder."""

    path: str
    facts: PartFacts


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The subscriptions of a run; each number is in one part."""

    files: tuple[PartFile, ...]
    places: RowPlaces
    by_text: bool

    @property
    def subscriptions(self) -> int:
        """How many were read."""
        return sum(file.facts.subscriptions for file in self.files)

    @property
    def texts(self) -> int:
        """How many different descriptors there are at the most."""
        return sum(file.facts.texts for file in self.files)

    @property
    def identity(self) -> str:
        """What equal subscriptions have in common, for the table of runs."""
        digest = sum(file.facts.digest for file in self.files) % 2**64
        return f"{self.subscriptions} subscriptions, {digest:016x}"

    @property
    def is_small(self) -> bool:
        """Whether one task can take all of them apart."""
        return self.subscriptions <= FEW_SUBSCRIPTIONS and self.texts <= FEW_TEXTS


def snapshot(tasks: Tasks, scratch: Scratch, source: Subscriptions) -> Snapshot:
    """Read all subscriptions into the scratch folder."""
    shares = source.shares(tasks.parallelism)
    what = "read subscriptions"
    if source.held:
        files = [_kept(scratch, part) for part in source.held]
    elif source.rows is not None:
        files = tasks.values(source.rows.mapInArrow(_row_batches(scratch), BLOCK_TYPES), what)
    else:
        read = source.read

        def keep(share: Any) -> Iterator[Sent]:
            for part in read(share):
                yield DRIVER, _kept(scratch, part)

        files = tasks.run(keep, shares, what, len(shares) * ROWS_IN_TASK)
    places = places_of(shares, [file.facts for file in files])
    found = Snapshot(tuple(files), places, source.by_text)
    # One task that takes all of them apart sees by itself which come twice.
    may_come_twice = not source.numbers_differ and not found.is_small
    if may_come_twice and may_share_numbers(file.facts for file in files):
        once = _each_number_once(tasks, scratch, files, by_text=source.by_text)
        return replace(found, files=tuple(once))
    return found


def _kept(scratch: Scratch, part: SubscriptionPart) -> PartFile:
    return PartFile(scratch.put("part", part), facts_of(part))


def _row_batches(scratch: Scratch) -> Any:
    """The task for rows that Spark has read: pickled parts."""

    def keep(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = (
            pickle.loads(row.as_buffer())  # noqa: S301 - of the task before
            for batch in batches
            for row in batch.column(0)
        )
        yield from batches_of((DRIVER, _kept(scratch, part)) for part in parts)

    return keep


def _each_number_once(
    tasks: Tasks, scratch: Scratch, files: Sequence[PartFile], *, by_text: bool
) -> list[PartFile]:
    """Bring equal numbers together, and leave the first of each."""
    size = sum(file.facts.subscriptions for file in files)
    count = tasks.partitions(len(files), size)

    def cut(file: PartFile) -> Iterator[Sent]:
        yield from by_number(scratch.get(file.path), count)

    def join(_: int, parts: list[SubscriptionPart]) -> Iterator[Sent]:
        yield DRIVER, _kept(scratch, each_once(merged(parts), by_text=by_text))

    joined = tasks.exchanged(cut, files, join, count, size)
    return tasks.values(joined, "compare subscription numbers")
