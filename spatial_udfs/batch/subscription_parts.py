"""Subscriptions on their way between tasks: whole arrays, each descriptor text once in each part.

Nothing here knows Spark or where subscriptions come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spatial_udfs.bulk.buckets import bucket_of
from spatial_udfs.entity_table import Bools, Int32s, Int64s

NO_ROWS: Final = np.empty(0, np.int64)


class BadRow(NamedTuple):
    """What is no subscription, and why; ``place`` says where it stands among all rows."""

    place: int
    sub_id: int | None
    reason: str


class SubscriptionPart(NamedTuple):
    """Some subscriptions: number i is ``sub_ids[i]``, with the text ``texts[text_of[i]]``."""

    sub_ids: Int64s
    places: Int64s
    texts: pa.StringArray
    text_of: Int32s
    bad: list[BadRow]
    # Which range of a file was read, and how many lines it had, blank ones too.
    range_number: int = 0
    lines: int = 0


class PartFacts(NamedTuple):
    """What the driver learns of a part: between which numbers it is, and how many lines it was."""

    subscriptions: int
    least: int
    largest: int
    range_number: int
    lines: int
    texts: int  # different ones
    digest: int  # of numbers and texts, in whatever order they come


def facts_of(part: SubscriptionPart) -> PartFacts:
    """Return the facts of a part as it was read."""
    count = len(part.sub_ids)
    return PartFacts(
        subscriptions=count,
        least=int(part.sub_ids.min()) if count else 0,
        largest=int(part.sub_ids.max()) if count else 0,
        range_number=part.range_number,
        lines=part.lines,
        texts=len(part.texts),
        digest=_digest(part),
    )


def _digest(part: SubscriptionPart) -> int:
    """Return a number that is the same for equal subscriptions: a sum over all of them."""
    sums = np.fromiter((crc32(text.as_buffer()) for text in part.texts), np.uint64, len(part.texts))
    with np.errstate(over="ignore"):
        numbers = (part.sub_ids.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (numbers ^ (numbers >> np.uint64(29))) * (sums[part.text_of] | np.uint64(1))
        return int(mixed.sum(dtype=np.uint64))


def may_share_numbers(parts: Iterable[PartFacts]) -> bool:
    """Return whether a subId can be in two of the parts."""
    spans = sorted((part.least, part.largest) for part in parts if part.subscriptions)
    return any(before[1] >= after[0] for before, after in pairwise(spans))


def each_once(part: SubscriptionPart, *, by_text: bool) -> SubscriptionPart:
    """Return the part with each number once: where it comes first, by place or by text."""
    numbers = part.sub_ids
    if (numbers[1:] > numbers[:-1]).all():
        return part
    rank = _text_ranks(part)[part.text_of] if by_text else part.places
    order = np.lexsort((rank, numbers))
    repeated = np.zeros(len(numbers), np.bool_)
    repeated[order[1:]] = numbers[order[1:]] == numbers[order[:-1]]
    if not repeated.any():
        return part
    late = [
        BadRow(place, number, f"subId {number} came before")
        for place, number in zip(
            part.places[repeated].tolist(), numbers[repeated].tolist(), strict=True
        )
    ]
    return _some(part, ~repeated)._replace(bad=[*part.bad, *late])


def by_number(part: SubscriptionPart, count: int) -> Iterator[tuple[int, SubscriptionPart]]:
    """Yield the part, cut for an exchange that brings each number into one of ``count`` parts."""
    yield from _cut(part, bucket_of(part.sub_ids, count), count)


def by_text(part: SubscriptionPart, count: int) -> Iterator[tuple[int, SubscriptionPart]]:
    """Yield the part, cut for an exchange that brings each text into one of ``count`` parts."""
    # Python's own hash of a text differs from worker to worker.
    owners = np.fromiter(
        (crc32(text.as_buffer()) % count for text in part.texts), np.int32, len(part.texts)
    )
    yield from _cut(part, owners[part.text_of], count)


def merged(parts: Sequence[SubscriptionPart]) -> SubscriptionPart:
    """Return all parts as one, with each text once."""
    if len(parts) == 1:
        return parts[0]
    every = pa.concat_arrays([pa.array([], pa.string()), *(part.texts for part in parts)])
    known = every.dictionary_encode()
    place = known.indices.to_numpy(zero_copy_only=False)
    before = np.cumsum([0, *(len(part.texts) for part in parts)])
    text_of = [place[part.text_of + start] for part, start in zip(parts, before[:-1], strict=True)]
    return SubscriptionPart(
        sub_ids=np.concatenate([NO_ROWS, *(part.sub_ids for part in parts)]),
        places=np.concatenate([NO_ROWS, *(part.places for part in parts)]),
        texts=known.dictionary,
        text_of=np.concatenate([np.empty(0, np.int32), *text_of]).astype(np.int32),
        bad=[row for part in parts for row in part.bad],
    )


def part_of_texts(
    sub_ids: Int64s,
    texts: pa.Array,
    places: Int64s | None = None,
    bad: list[BadRow] | None = None,
) -> SubscriptionPart:
    """Return a part of subscriptions with their texts; without places they have no order."""
    known = texts.dictionary_encode()
    return SubscriptionPart(
        sub_ids=sub_ids,
        places=np.zeros(len(sub_ids), np.int64) if places is None else places,
        texts=known.dictionary.cast(pa.string()),
        text_of=known.indices.to_numpy(zero_copy_only=False).astype(np.int32),
        bad=bad or [],
    )


def _cut(
    part: SubscriptionPart, owners: Int32s, count: int
) -> Iterator[tuple[int, SubscriptionPart]]:
    for owner in np.unique(owners).tolist():
        yield owner, _some(part, owners == owner)
    if part.bad:
        nobody = _some(part, np.zeros(len(owners), np.bool_))
        yield part.range_number % count, nobody._replace(bad=part.bad)


def _some(part: SubscriptionPart, wanted: Bools) -> SubscriptionPart:
    used, text_of = np.unique(part.text_of[wanted], return_inverse=True)
    texts = part.texts.take(pa.array(used))
    return SubscriptionPart(
        part.sub_ids[wanted], part.places[wanted], texts, text_of.astype(np.int32), []
    )


def _text_ranks(part: SubscriptionPart) -> Int64s:
    ranks = np.empty(len(part.texts), np.int64)
    ranks[pc.sort_indices(part.texts).to_numpy()] = np.arange(len(part.texts))
    return ranks
