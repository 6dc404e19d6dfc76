"""Leaves each peid and each key once among the rows of all sources, and reports the other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import shapely

from schemas.entity import is_hashed
from schemas.errors import SourceError
from world.sources.candidates import Candidates, Problem, ProblemKind


class Occurrence(NamedTuple):
    """One row of a peid: its place in the source and its values. ``geometry`` is WKB."""

    source: str
    locator: str
    key: str
    categories: Sequence[str]
    name: str | None
    geometry: bytes


def without_duplicates(sources: Sequence[Candidates]) -> tuple[list[Candidates], list[Problem]]:
    """Return the rows with each peid once, and a problem for each row that is left out."""
    counts = [len(rows) for rows in sources]
    peids = np.concatenate([np.empty(0, np.int64), *(rows.peids for rows in sources)])
    owner = np.repeat(np.arange(len(sources)), counts)
    begin = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    _, first, inverse = np.unique(peids, return_index=True, return_inverse=True)
    repeated = first[inverse] != np.arange(len(peids))

    def occurrence(position: int) -> Occurrence:
        rows = sources[owner[position]]
        return _occurrence(rows, position - int(begin[owner[position]]))

    problems = [
        duplicate(int(peids[later]), occurrence(int(first[inverse[later]])), occurrence(int(later)))
        for later in np.flatnonzero(repeated)
    ]
    kept = [
        rows.where(~repeated[begin[number] : begin[number + 1]])
        for number, rows in enumerate(sources)
    ]
    return kept, problems


def duplicate(peid: int, first: Occurrence, later: Occurrence) -> Problem:
    """Return the problem of a later row; an exact repetition has a kind of its own.

    Raises SourceError if the rows have different keys, and the hash made the peid from one of them.
    """
    where = f"{first.source}, {first.locator}"
    if first.key != later.key and any(is_hashed(each.key, peid) for each in (first, later)):
        raise SourceError(
            f"the keys {first.key!r} ({where}) and {later.key!r} ({later.source}, {later.locator}) "
            f"both have the peid {peid}: change one of them"
        )
    different = [
        word
        for word, mine, its in (
            ("key", later.key, first.key),
            ("categories", list(later.categories), list(first.categories)),
            ("name", later.name, first.name),
            ("geometry", later.geometry, first.geometry),
        )
        if mine != its
    ]
    if different:
        kind = ProblemKind.DUPLICATE_CONFLICTING
        *others, last = different
        what = f"{', '.join(others)} and {last}" if others else last
        same = "key" if first.key == later.key != str(peid) else "peid"
        reason = f"has the {same} of {where}, but other {what}; the first stays"
    else:
        kind = ProblemKind.DUPLICATE_IDENTICAL
        reason = f"repeats {where}"
    return Problem(kind, not different, peid, later.source, later.locator, reason)


def _occurrence(rows: Candidates, position: int) -> Occurrence:
    geometry: Any = rows.geometries[position]
    return Occurrence(
        source=rows.source,
        locator=rows.locator(int(rows.ordinals[position])),
        key=rows.key_at(position),
        categories=rows.categories[position],
        name=rows.names[position],
        geometry=shapely.to_wkb(geometry),
    )


def with_unique_keys(sources: Sequence[Candidates]) -> tuple[list[Candidates], list[Problem]]:
    """Return the rows with each key once, and a problem for each row that repeats a key.

    Such a row has another peid, so it stays, with the decimal peid as its key. Where keys and peids
    are made from each other, no key can be there twice.
    """
    if not any(rows.keys_and_peids for rows in sources):
        return list(sources), []
    first: dict[str, tuple[Candidates, int]] = {}
    problems: list[Problem] = []
    result: list[Candidates] = []
    for rows in sources:
        keys = rows.keys.copy()
        for position in range(len(rows)):
            key = rows.key_at(position)
            holder, place = first.setdefault(key, (rows, position))
            if holder is rows and place == position:
                continue
            where = f"{holder.source}, {holder.locator(int(holder.ordinals[place]))}"
            reason = repeated_key(key, where)
            problems.append(rows.problem(position, ProblemKind.DUPLICATE_KEY, reason, kept=True))
            keys[position] = None
        result.append(replace(rows, keys=keys))
    return result, problems


def repeated_key(key: str, first: str) -> str:
    """Return the reason of a row that has another peid than the first row with its key."""
    return f"has the key {key!r} of {first}, but another peid; its key is now its peid"
