"""What can be wrong with a piece of input, and the log in which an import writes it down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from world.versions import tables


class ProblemKind(StrEnum):
    """One word for each kind; docs/decisions/0022 says what is kept and what is left out."""

    DUPLICATE_IDENTICAL = "duplicate-identical"
    DUPLICATE_CONFLICTING = "duplicate-conflicting"
    MISSING_PEID = "missing-peid"
    MALFORMED_PEID = "malformed-peid"
    PEID_OUT_OF_RANGE = "peid-out-of-range"
    PEID_COLLISION = "peid-collision"
    MISSING_CATEGORIES = "missing-categories"
    MALFORMED_CATEGORY = "malformed-category"
    MALFORMED_NAME = "malformed-name"
    MISSING_GEOMETRY = "missing-geometry"
    EMPTY_GEOMETRY = "empty-geometry"
    BROKEN_GEOMETRY = "broken-geometry"
    GEOMETRY_COLLECTION = "geometry-collection"
    UNKNOWN_GEOMETRY_TYPE = "unknown-geometry-type"
    NON_FINITE_COORDINATES = "non-finite-coordinates"
    OUTSIDE_PROJECTION = "outside-projection"
    INCOMPLETE_WAY = "incomplete-way"
    INCOMPLETE_RELATION = "incomplete-relation"
    OPEN_AREA = "open-area"


@dataclass(frozen=True, slots=True)
class Problem:
    """One remark about one piece of input. ``kept``: the entity is in the version all the same."""

    kind: ProblemKind
    kept: bool
    peid: int | None
    source: str
    locator: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source}, {self.locator}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ProblemSummary:
    """How often a kind occurred, how many of those are kept, and the first one as an example."""

    kind: ProblemKind
    count: int
    kept: int
    example: Problem

    def __str__(self) -> str:
        return f"{self.count} {self.kind} (such as {self.example})"


def problem_table(problems: Sequence[Problem]) -> pa.Table:
    """The problems as rows of the table ``problems``, without its version."""
    columns = [
        [problem.kind.value for problem in problems],
        [problem.kept for problem in problems],
        [problem.peid for problem in problems],
        [problem.source for problem in problems],
        [problem.locator for problem in problems],
        [problem.reason for problem in problems],
    ]
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(columns, tables.UNVERSIONED_PROBLEMS, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=tables.UNVERSIONED_PROBLEMS)


def problems_of(table: pa.Table) -> list[Problem]:
    """The problems that stand in a table, as objects."""
    return [
        Problem(**{**row, "kind": ProblemKind(row["kind"])})
        for row in table.select(tables.UNVERSIONED_PROBLEMS.names).to_pylist()
    ]


def summarize(problems: Sequence[Problem]) -> tuple[ProblemSummary, ...]:
    """One summary for each kind, in the order of ``ProblemKind``."""
    by_kind: dict[ProblemKind, list[Problem]] = {}
    for problem in problems:
        by_kind.setdefault(problem.kind, []).append(problem)
    return tuple(
        ProblemSummary(
            kind=kind,
            count=len(by_kind[kind]),
            kept=sum(problem.kept for problem in by_kind[kind]),
            example=by_kind[kind][0],
        )
        for kind in ProblemKind
        if kind in by_kind
    )
