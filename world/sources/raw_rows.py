"""Reads peids, keys, categories and names from the raw values of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import shapely
from numpy.typing import NDArray

from schemas.entity import key_fault, peid_of_key
from schemas.language.limits import MAX_PEID
from spatial_udfs.entity_table import Geometries, Int64s
from world.sources.candidates import Candidates, Problem, ProblemKind, objects
from world.sources.osm.rules import GeometryKind
from world.sources.raw_values import (
    category_fault,
    is_text,
    read_categories,
    read_integer,
    read_key,
    shown,
    written_name,
)
from world.sources.source_options import SourceOptions

# What rules call a geometry, by the type of shapely. Lines of other sources than OSM stay whole.
POINTS: Final = (GeometryKind.POINT,)
LINES: Final = (GeometryKind.LINE, GeometryKind.ROAD)
AREAS: Final = (GeometryKind.AREA,)
KINDS: Final = {0: POINTS, 1: LINES, 2: LINES, 3: AREAS, 4: POINTS, 5: LINES, 6: AREAS}
# A row without a geometry, or with a collection, is left out for that and not for its categories.
ANY_KIND: Final = tuple(GeometryKind)


@dataclass(frozen=True, slots=True, eq=False)
class RawRows:
    """Rows with the raw values of a file, which can be of any type.

    ``peids`` or ``keys`` is None if the file has none. Without peids they are made from the keys.
    ``tags`` are the attributes of each row for the rules of the options; None without rules.
    """

    source: str
    locator: Callable[[int], str]
    ordinals: Int64s
    peids: Sequence[Any] | None
    keys: Sequence[Any] | None
    categories: Sequence[Any]
    names: Sequence[Any]
    geometries: Geometries
    tags: Sequence[Mapping[str, str]] | None
    options: SourceOptions

    def candidates(self) -> tuple[Candidates, list[Problem]]:
        """Return the rows with a usable peid and categories, and the problems of the others."""
        problems: list[Problem] = []
        count = len(self.ordinals)
        peids = np.zeros(count, np.int64)
        keys = np.empty(count, object)
        categories = np.empty(count, object)
        usable = np.zeros(count, np.bool_)
        by_rules = self._by_rules()
        for position in range(count):
            peid, keys[position], problem = self._identity(position)
            if problem is not None:
                problems.append(problem)
            if peid is None:
                continue
            peids[position] = peid
            categories[position], found = self._categories(position, peid, by_rules)
            problems.extend(found)
            usable[position] = bool(categories[position])
        names, found = self._names(peids, usable)
        problems += found
        rows = Candidates(
            source=self.source,
            locator=self.locator,
            ordinals=self.ordinals,
            peids=peids,
            categories=categories,
            names=objects(names),
            geometries=self.geometries,
            keys=keys,
            keys_and_peids=self.peids is not None and self.keys is not None,
        )
        return rows.where(usable), problems

    def _identity(self, position: int) -> tuple[int | None, str | None, Problem | None]:
        """Return peid and key of a row, and its problem; no peid if the row cannot be used."""
        key, fault = (None, "") if self.keys is None else self._key(self.keys[position])
        if self.peids is None:
            if key is not None:
                return peid_of_key(key), key, None
            if not fault:
                missing = self._problem(position, ProblemKind.MISSING_KEY, "has no id")
                return None, None, missing
            return None, None, self._problem(position, ProblemKind.MALFORMED_KEY, f"its id {fault}")
        peid, problem = self._peid(position, self.peids[position])
        if problem is None and fault:
            reason = f"its id {fault}; its key is its peid"
            kind = ProblemKind.MALFORMED_KEY
            problem = self._problem(position, kind, reason, peid=peid, kept=True)
        return peid, key, problem

    def _key(self, value: Any) -> tuple[str | None, str]:
        key, fault = read_key(value)
        if key is None or self.options.key_prefix is None:
            return key, fault
        key = self.options.key_prefix + key
        fault = key_fault(key) or ""
        return (None, fault) if fault else (key, "")

    def _peid(self, position: int, value: Any) -> tuple[int | None, Problem | None]:
        if value is None:
            return None, self._problem(position, ProblemKind.MISSING_PEID, "has no peid")
        peid = read_integer(value)
        if peid is None:
            reason = f"peid {shown(value)} is not an integer from 0 to {MAX_PEID}"
            return None, self._problem(position, ProblemKind.MALFORMED_PEID, reason)
        if not 0 <= peid <= MAX_PEID:
            reason = f"peid {peid} is not within 0 .. {MAX_PEID}"
            return None, self._problem(position, ProblemKind.PEID_OUT_OF_RANGE, reason)
        return peid, None

    def _categories(
        self, position: int, peid: int, by_rules: Sequence[tuple[str, ...]]
    ) -> tuple[tuple[str, ...], list[Problem]]:
        own, faults = read_categories(self.categories[position])
        categories = self._with_prefix((*own, *by_rules[position]), faults)
        if not categories and not faults and self.options.category is not None:
            return (self.options.category,), []
        if not categories and not faults:
            kind, reasons = ProblemKind.MISSING_CATEGORIES, ["has no categories"]
        else:
            kind, reasons = ProblemKind.MALFORMED_CATEGORY, faults
        kept = bool(categories)
        return categories, [
            self._problem(position, kind, reason, peid=peid, kept=kept) for reason in reasons
        ]

    def _by_rules(self) -> list[tuple[str, ...]]:
        """Return the categories that the rules give to the attributes of each row."""
        rules = self.options.rules
        if self.tags is None or rules is None:
            return [()] * len(self.ordinals)
        types = shapely.get_type_id(self.geometries).tolist()
        return [
            tuple(
                category
                for kind in KINDS.get(of, ANY_KIND)
                for category in rules.categories(kind, its)
            )
            for of, its in zip(types, self.tags, strict=True)
        ]

    def _with_prefix(self, categories: Iterable[str], faults: list[str]) -> tuple[str, ...]:
        """Return the categories below the prefix, sorted and unique; add faults of those."""
        prefix = self.options.category
        if prefix is None:
            return tuple(sorted(set(categories)))
        below = {f"{prefix}/{category}" for category in categories}
        wrong = {category: fault for category in below if (fault := category_fault(category))}
        faults += wrong.values()
        return tuple(sorted(below - wrong.keys()))

    def _names(
        self, peids: Int64s, usable: NDArray[np.bool_]
    ) -> tuple[list[str | None], list[Problem]]:
        """Return the names to store, and the problems of the names of usable rows."""
        names: list[str | None] = []
        problems: list[Problem] = []
        rules = self.options.rules
        for position, value in enumerate(self.names):
            name = written_name(value)
            if name is None and rules is not None and self.tags is not None:
                name = rules.name(self.tags[position])
            if name is not None and not is_text(name):
                name = name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
                if usable[position]:
                    reason = "name has a lone surrogate or a byte that is not UTF-8; replaced"
                    kind, peid = ProblemKind.MALFORMED_NAME, int(peids[position])
                    problems.append(self._problem(position, kind, reason, peid=peid, kept=True))
            names.append(name)
        return names, problems

    def _problem(
        self,
        position: int,
        kind: ProblemKind,
        reason: str,
        *,
        peid: int | None = None,
        kept: bool = False,
    ) -> Problem:
        locator = self.locator(int(self.ordinals[position]))
        return Problem(kind, kept, peid, self.source, locator, reason)
