"""The category rules: which tags make an OSM element an entity, and its categories."""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from schemas.errors import SettingsError
from world.sources.raw_values import category_fault

PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
RULE_KEYS: Final = frozenset({"match", "unless", "geometry", "category"})
TOP_KEYS: Final = frozenset({"names", "rule"})
# The longest value that OSM allows.
MAX_LEVEL_CHARACTERS: Final = 255
# White space, and characters with a meaning in a category, a pattern or a rule.
UNSAFE: Final = re.compile(r"[/+#{}\s]+")


class GeometryKind(StrEnum):
    """The kinds of geometry that an element can become."""

    POINT = "point"
    LINE = "line"
    AREA = "area"
    ROAD = "road"


# What a rule without ``geometry`` is for: every element, in one piece.
WHOLE: Final = frozenset({GeometryKind.POINT, GeometryKind.LINE, GeometryKind.AREA})


@dataclass(frozen=True, slots=True)
class Rule:
    """Tags that must match, tags that must not, and the resulting category."""

    match: Mapping[str, tuple[str, ...]]
    unless: Mapping[str, tuple[str, ...]]
    geometry: frozenset[GeometryKind]
    category: str

    def categories(self, tags: Mapping[str, str]) -> Iterator[str]:
        """Yield the categories of an element with these tags; none if the rule does not fit."""
        if any(_fitting(tags.get(key), patterns) for key, patterns in self.unless.items()):
            return
        fitting = {key: _fitting(tags.get(key), patterns) for key, patterns in self.match.items()}
        if not all(fitting.values()):
            return
        keys = tuple(dict.fromkeys(PLACEHOLDER.findall(self.category)))
        for values in itertools.product(*(fitting[key] for key in keys)):
            category = self.category
            for key, value in zip(keys, values, strict=True):
                category = category.replace(f"{{{key}}}", value)
            yield category


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules, found by the keys of an element's tags."""

    rules: tuple[Rule, ...]
    name_keys: tuple[str, ...]
    sha256: str
    by_key: Mapping[str, tuple[Rule, ...]]

    def categories(
        self, kind: GeometryKind, tags: Mapping[str, str], unless: GeometryKind | None = None
    ) -> tuple[str, ...]:
        """Return the categories of an element as this kind of geometry, sorted.

        Rules that also apply to the kind ``unless`` are left out.
        """
        found = {
            category
            for key in tags
            for rule in self.by_key.get(key, ())
            if kind in rule.geometry and unless not in rule.geometry
            for category in rule.categories(tags)
        }
        return tuple(sorted(found))

    def keys(self) -> frozenset[str]:
        """Return the keys of all tags that rules or names use."""
        tables = (table for rule in self.rules for table in (rule.match, rule.unless))
        return frozenset(self.name_keys).union(*tables)

    def name(self, tags: Mapping[str, str]) -> str | None:
        """Return the name of an element, from the first name key that it has."""
        return next((tags[key] for key in self.name_keys if tags.get(key)), None)


def sanitized(value: str) -> str:
    """Return a tag value as one level of a category."""
    visible = "".join(character if character.isprintable() else " " for character in value)
    return UNSAFE.sub("_", visible[:MAX_LEVEL_CHARACTERS]).strip("_").lower()


def load_rules(path: Path | str | None = None) -> Rules:
    """Return the rules of a file; those of conf/categories.toml if none is given."""
    file = resources.files("conf") / "categories.toml" if path is None else Path(path)
    try:
        written = file.read_bytes()
        document = tomllib.loads(written.decode())
    except OSError as error:
        raise SettingsError(f"rules {file}: {error.strerror or error}") from error
    except ValueError as error:
        raise SettingsError(f"rules {file}: {' '.join(str(error).split())}") from error
    try:
        return _rules(document, hashlib.sha256(written).hexdigest())
    except SettingsError as error:
        raise SettingsError(f"rules {file}: {error}") from error


def _rules(document: Mapping[str, Any], sha256: str) -> Rules:
    _refuse_unknown(document, TOP_KEYS, "the file")
    written = document.get("rule", [])
    if not isinstance(written, list) or not written:
        raise SettingsError("there is no [[rule]]")
    rules = tuple(_rule(rule, f"rule {number}") for number, rule in enumerate(written, start=1))
    by_key: dict[str, tuple[Rule, ...]] = {}
    for rule in rules:
        # A rule needs all its keys, so it is found by one of them.
        key = next(iter(rule.match))
        by_key[key] = (*by_key.get(key, ()), rule)
    names = _strings(document.get("names", ["name"]), "names")
    return Rules(rules=rules, name_keys=names, sha256=sha256, by_key=by_key)


def _rule(written: Any, where: str) -> Rule:
    if not isinstance(written, dict):
        raise SettingsError(f"{where} must be a table")
    _refuse_unknown(written, RULE_KEYS, where)
    match = _patterns(written.get("match"), f"{where}: match")
    if not match:
        raise SettingsError(f"{where}: match needs at least one key")
    category = written.get("category")
    if not isinstance(category, str):
        raise SettingsError(f"{where}: category must be a string")
    unknown = [key for key in PLACEHOLDER.findall(category) if key not in match]
    if unknown:
        raise SettingsError(f"{where}: category has {{{unknown[0]}}}, which match does not name")
    plain = PLACEHOLDER.sub("x", category)
    if "{" in plain or "}" in plain:
        raise SettingsError(f"{where}: category {category!r} has a brace without its pair")
    fault = category_fault(plain)
    if fault is not None:
        raise SettingsError(f"{where}: {fault}")
    return Rule(
        match=match,
        unless=_patterns(written.get("unless", {}), f"{where}: unless"),
        geometry=_geometry(written.get("geometry"), where),
        category=category,
    )


def _geometry(written: Any, where: str) -> frozenset[GeometryKind]:
    if written is None:
        return WHOLE
    names = _strings(written, f"{where}: geometry")
    allowed = tuple(kind.value for kind in GeometryKind)
    unknown = [name for name in names if name not in allowed]
    if unknown or not names:
        raise SettingsError(f"{where}: geometry must be out of {', '.join(allowed)}")
    return frozenset(GeometryKind(name) for name in names)


def _patterns(written: Any, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(written, dict):
        raise SettingsError(f"{where} must be a table of key = value or key = [values]")
    return {key: _strings(value, f"{where}.{key}") for key, value in written.items()}


def _strings(written: Any, where: str) -> tuple[str, ...]:
    values = [written] if isinstance(written, str) else written
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise SettingsError(f"{where} must be a string or a list of strings")
    return tuple(values)


def _refuse_unknown(written: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    unknown = sorted(set(written) - known)
    if unknown:
        raise SettingsError(
            f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}"
        )


@lru_cache(maxsize=65_536)  # a city has `building=yes` a hundred thousand times
def _fitting(value: str | None, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a tag (``bakery;cafe`` are two) that fit a pattern, sanitized."""
    if value is None:
        return ()
    parts = (part.strip() for part in value.split(";"))
    chosen = (part for part in parts if any(_fits(part, pattern) for pattern in patterns))
    return tuple(dict.fromkeys(filter(None, map(sanitized, chosen))))


def _fits(value: str, pattern: str) -> bool:
    """Return whether a value fits a pattern; ``*`` alone fits any value but OSM's ``no``."""
    if pattern == "*":
        return value not in ("", "no")
    return fnmatch.fnmatchcase(value, pattern)
