"""Peids that occur more than once: the first row in source order stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import shapely

from world.sources.candidates import Candidates
from world.sources.problems import Problem, ProblemKind


class Occurrence(NamedTuple):
    """One row of a peid: where it stands and what it says. ``geometry`` is WKB."""

    source: str
    locator: str
    categories: Sequence[str]
    name: str | None
    geometry: bytes


def without_duplicates(sources: Sequence[Candidates]) -> tuple[list[Candidates], list[Problem]]:
    """Each peid once, and a problem for each row that had to go."""
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
    """The problem of a later row; one that only repeats the first is told apart."""
    different = [
        word
        for word, mine, its in (
            ("categories", list(later.categories), list(first.categories)),
            ("name", later.name, first.name),
            ("geometry", later.geometry, first.geometry),
        )
        if mine != its
    ]
    where = f"{first.source}, {first.locator}"
    if different:
        kind = ProblemKind.DUPLICATE_CONFLICTING
        what = " and ".join(different)
        reason = f"has the peid of {where}, but other {what}; the first stays"
    else:
        kind = ProblemKind.DUPLICATE_IDENTICAL
        reason = f"says the same as {where}"
    return Problem(kind, not different, peid, later.source, later.locator, reason)


def _occurrence(rows: Candidates, position: int) -> Occurrence:
    geometry: Any = rows.geometries[position]
    return Occurrence(
        source=rows.source,
        locator=rows.locator(int(rows.ordinals[position])),
        categories=rows.categories[position],
        name=rows.names[position],
        geometry=shapely.to_wkb(geometry),
    )
