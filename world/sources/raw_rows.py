"""Reads peids, categories and names from the raw values of a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from schemas.language.limits import MAX_CATEGORY_LEVELS, MAX_PEID
from spatial_udfs.entity_table import Geometries, Int64s
from world.sources.candidates import Candidates, Problem, ProblemKind, objects

# Bounded, because converting very many digits takes quadratic time.
DECIMAL: Final = re.compile(r"-?[0-9]{1,40}")
# The most characters of a value that a problem shows.
MOST_SHOWN: Final = 60
MAX_CATEGORY_CHARACTERS: Final = 1_024


@dataclass(frozen=True, slots=True, eq=False)
class RawRows:
    """Rows with the raw values of a file, which can be of any type."""

    source: str
    locator: Callable[[int], str]
    ordinals: Int64s
    peids: Sequence[Any]
    categories: Sequence[Any]
    names: Sequence[Any]
    geometries: Geometries
    default_category: str | None = None

    def candidates(self) -> tuple[Candidates, list[Problem]]:
        """Return the rows with a usable peid and categories, and the problems of the others."""
        problems: list[Problem] = []
        peids = np.zeros(len(self.peids), np.int64)
        categories = np.empty(len(self.peids), object)
        usable = np.zeros(len(self.peids), np.bool_)
        for position, value in enumerate(self.peids):
            peid, problem = self._peid(position, value)
            if problem is not None:
                problems.append(problem)
                continue
            peids[position] = peid
            categories[position], found = self._categories(position, peid)
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
        )
        return rows.where(usable), problems

    def _peid(self, position: int, value: Any) -> tuple[int, Problem | None]:
        if value is None:
            return 0, self._problem(position, ProblemKind.MISSING_PEID, "has no peid")
        peid = _integer(value)
        if peid is None:
            reason = f"peid {_shown(value)} is not an integer from 0 to {MAX_PEID}"
            return 0, self._problem(position, ProblemKind.MALFORMED_PEID, reason)
        if not 0 <= peid <= MAX_PEID:
            reason = f"peid {peid} is not within 0 .. {MAX_PEID}"
            return 0, self._problem(position, ProblemKind.PEID_OUT_OF_RANGE, reason)
        return peid, None

    def _categories(self, position: int, peid: int) -> tuple[tuple[str, ...], list[Problem]]:
        categories, faults = read_categories(self.categories[position])
        if not categories and not faults and self.default_category is not None:
            return (self.default_category,), []
        if not categories and not faults:
            kind, reasons = ProblemKind.MISSING_CATEGORIES, ["has no categories"]
        else:
            kind, reasons = ProblemKind.MALFORMED_CATEGORY, faults
        kept = bool(categories)
        return categories, [
            self._problem(position, kind, reason, peid=peid, kept=kept) for reason in reasons
        ]

    def _names(
        self, peids: Int64s, usable: NDArray[np.bool_]
    ) -> tuple[list[str | None], list[Problem]]:
        """Return the names to store, and the problems of the names of usable rows."""
        names: list[str | None] = []
        problems: list[Problem] = []
        for position, value in enumerate(self.names):
            name = written_name(value)
            if name is not None and not _is_text(name):
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


def _is_text(name: str) -> bool:
    """Return whether the name can be written as UTF-8: a lone surrogate cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    """Return the value in a few characters, even if it is deeply nested."""
    try:
        shown = repr(value)
    except RecursionError:
        return f"of {type(value).__name__}, nested deep,"
    return shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}…"


def _integer(value: Any) -> int | None:
    """Return an integer or the decimal notation of one as int; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    # Unsigned 64-bit columns come as decimals when Spark reads them.
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if isinstance(value, str) and DECIMAL.fullmatch(value):
        return int(value)
    return None


def written_name(value: Any) -> str | None:
    """Return a name as it is stored: without surrounding space; None if nothing is left."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return None


@lru_cache(maxsize=65_536)
def category_fault(category: str) -> str | None:
    """Return why a string cannot be a category; None if it can.

    A category is matched like an MQTT topic, so it must not have wildcards. Empty levels are
    refused because people cannot see them.
    """
    if len(category) > MAX_CATEGORY_CHARACTERS:
        return f"category is longer than {MAX_CATEGORY_CHARACTERS} characters"
    shown = repr(category)
    levels = category.split("/")
    if not all(level.strip() for level in levels):
        return f"category {shown} has an empty level"
    if len(levels) > MAX_CATEGORY_LEVELS:
        return f"category {shown} has more than {MAX_CATEGORY_LEVELS} levels"
    if "+" in category or "#" in category:
        return f"category {shown} has a wildcard (+ or #)"
    if not category.isprintable():
        return f"category {shown} has a character that cannot be printed"
    return None


def read_categories(value: Any) -> tuple[tuple[str, ...], list[str]]:
    """Return the usable categories of a row, sorted and unique, and the faults of the others.

    A trailing slash is ignored, as in a pattern. None and an empty list give nothing.
    """
    if value is None:
        return (), []
    if not isinstance(value, (list, tuple)):
        return (), [f"categories must be a list of strings, not {type(value).__name__}"]
    usable: set[str] = set()
    faults: list[str] = []
    for item in value:
        if not isinstance(item, str):
            faults.append(f"a category must be a string, not {type(item).__name__}")
            continue
        category = item.removesuffix("/")
        fault = category_fault(category)
        if fault is None:
            usable.add(category)
        else:
            faults.append(fault)
    return tuple(sorted(usable)), faults
