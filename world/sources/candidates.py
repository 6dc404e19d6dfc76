"""Candidates for entities: the rows of a source in columns, and the problems of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray

from schemas import entity
from spatial_udfs.entity_table import Geometries, Int64s
from world.versions import version_tables


class ProblemKind(StrEnum):
    """The kinds of problems; docs/decisions/0022 says which rows are kept or left out."""

    DUPLICATE_IDENTICAL = "duplicate-identical"
    DUPLICATE_CONFLICTING = "duplicate-conflicting"
    DUPLICATE_KEY = "duplicate-key"
    MISSING_KEY = "missing-key"
    MALFORMED_KEY = "malformed-key"
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
    """A problem of one input row; ``kept`` tells whether its entity is in the version anyway."""

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
    """The problems of one kind: their number, how many are kept, and the first as an example."""

    kind: ProblemKind
    count: int
    kept: int
    example: Problem

    def __str__(self) -> str:
        return f"{self.count} {self.kind} (such as {self.example})"


def problem_table(problems: Sequence[Problem]) -> pa.Table:
    """Return the problems as rows of the table ``problems``, without the version column."""
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
        for column, field in zip(columns, version_tables.UNVERSIONED_PROBLEMS, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=version_tables.UNVERSIONED_PROBLEMS)


def problems_of(table: pa.Table) -> list[Problem]:
    """Return the problems of a table as objects."""
    return [
        Problem(**{**row, "kind": ProblemKind(row["kind"])})
        for row in table.select(version_tables.UNVERSIONED_PROBLEMS.names).to_pylist()
    ]


def summarize(problems: Sequence[Problem]) -> tuple[ProblemSummary, ...]:
    """Return one summary for each kind, in the order of ``ProblemKind``."""
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


Objects = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Rows of one source, column by column; ``ordinals`` number them within the source.

    A key of None is the decimal peid. ``keys_and_peids`` says that the source gives both, so that
    neither is made from the other. ``locator`` turns an ordinal into words. It is called only for
    the few rows with a problem.
    """

    source: str
    locator: Callable[[int], str]
    ordinals: Int64s
    peids: Int64s
    categories: Objects
    names: Objects
    geometries: Geometries
    keys: Objects
    keys_and_peids: bool = False

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.peids)

    def where(self, chosen: NDArray[np.bool_]) -> Candidates:
        """Return only the chosen rows."""
        return replace(
            self,
            ordinals=self.ordinals[chosen],
            peids=self.peids[chosen],
            categories=self.categories[chosen],
            names=self.names[chosen],
            geometries=self.geometries[chosen],
            keys=self.keys[chosen],
        )

    def key_at(self, position: int) -> str:
        """Return the key of the row at this position."""
        key = self.keys[position]
        return str(self.peids[position]) if key is None else str(key)

    def problem(self, position: int, kind: ProblemKind, reason: str, *, kept: bool) -> Problem:
        """Return a problem of the row at this position."""
        return Problem(
            kind=kind,
            kept=kept,
            peid=int(self.peids[position]),
            source=self.source,
            locator=self.locator(int(self.ordinals[position])),
            reason=reason,
        )

    def without(
        self, faults: Mapping[int, tuple[ProblemKind, str]]
    ) -> tuple[Candidates, list[Problem]]:
        """Return the rows without those whose ordinals have a fault, and a problem for each."""
        bad = np.isin(self.ordinals, list(faults))
        problems = [
            self.problem(place, *faults[int(self.ordinals[place])], kept=False)
            for place in np.flatnonzero(bad).tolist()
        ]
        return self.where(~bad), problems

    def as_table(self) -> pa.Table:
        """Return the rows as a table (UNVERSIONED_ENTITIES)."""
        wkb = shapely.to_wkb(self.geometries, output_dimension=2, byte_order=1, include_srid=False)
        peids = pa.array(self.peids, pa.int64())
        return pa.Table.from_arrays(
            [
                peids,
                self._category_lists(),
                pa.array(self.names, pa.string()),
                pa.array(wkb, pa.binary()),
                pc.coalesce(pa.array(self.keys, pa.string()), peids.cast(pa.string())),
            ],
            schema=version_tables.UNVERSIONED_ENTITIES,
        )

    def _category_lists(self) -> pa.Array:
        """Return the categories as an Arrow array; lists that rows share are converted once."""
        lists = self.categories.tolist()
        shared = {id(each): each for each in lists}
        places = {name: place for place, name in enumerate(shared)}
        kind = version_tables.UNVERSIONED_ENTITIES.field(entity.CATEGORIES).type
        codes = pa.array([places[id(each)] for each in lists], pa.int64())
        return pa.array(list(shared.values()), kind).take(codes)


def objects(values: Sequence[Any]) -> Objects:
    """Return an array with one element for each value, even where all values are lists."""
    array = np.empty(len(values), object)
    array[:] = values
    return array
