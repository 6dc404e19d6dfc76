"""Peids that occur more than once: the first row in source order stays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import shapely

from world.candidates import Candidates
from world.problems import Problem, ProblemKind


def without_duplicates(
    sources: Sequence[Candidates],
) -> tuple[list[Candidates], list[Problem]]:
    """Each peid once; a later row that says the same is told apart from one that does not."""
    peids = np.concatenate([rows.peids for rows in sources]) if sources else np.empty(0, np.int64)
    owner = np.repeat(np.arange(len(sources)), [len(rows) for rows in sources])
    place = np.concatenate([np.arange(len(rows)) for rows in sources]) if sources else owner
    _, first, inverse = np.unique(peids, return_index=True, return_inverse=True)
    firsts = first[inverse]
    repeated = firsts != np.arange(len(peids))
    problems = []
    for position in np.flatnonzero(repeated):
        earlier = sources[owner[firsts[position]]], int(place[firsts[position]])
        later = sources[owner[position]], int(place[position])
        problems.append(_duplicate(*earlier, *later))
    return [rows.where(~repeated[owner == number]) for number, rows in enumerate(sources)], problems


def _duplicate(earlier: Candidates, kept: int, later: Candidates, position: int) -> Problem:
    differences = [
        name
        for name, differs in (
            ("categories", earlier.categories[kept] != later.categories[position]),
            ("name", earlier.names[kept] != later.names[position]),
            (
                "geometry",
                shapely.to_wkb(earlier.geometries[kept])
                != shapely.to_wkb(later.geometries[position]),
            ),
        )
        if differs
    ]
    where = f"{earlier.source}, {earlier.locator(int(earlier.ordinals[kept]))}"
    if not differences:
        return later.problem(
            position, ProblemKind.DUPLICATE_IDENTICAL, f"says the same as {where}", kept=True
        )
    return later.problem(
        position,
        ProblemKind.DUPLICATE_CONFLICTING,
        f"has the peid of {where} but another {' and '.join(differences)}; the first stays",
        kept=False,
    )
