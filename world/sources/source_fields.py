"""Finds out which fields of a source become keys, peids, categories and names.

The fields are columns of a source that is read with Arrow, or properties of GeoJSON features.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyproj import CRS

from schemas import entity
from schemas.errors import SourceError
from world.sources.raw_values import printable, tag_text
from world.sources.source_options import CATEGORY, ID, SourceOptions

SHOWN_FIELDS: Final = 12


@dataclass(frozen=True, slots=True)
class GeometryColumn:
    """The column of geometries, WKB or WKT, and their CRS."""

    name: str
    is_text: bool
    crs: CRS


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """The columns of a source; at least one of ``peid`` and ``key`` is there.

    ``attributes`` are the columns that rules use, each with the tag that it is for them.
    """

    source: str
    geometry: GeometryColumn
    peid: str | None
    key: str | None
    categories: str | None
    name: str | None
    attributes: tuple[tuple[str, str], ...]
    options: SourceOptions

    @classmethod
    def of_schema(
        cls,
        source: str,
        where: str,
        schema: pa.Schema,
        geometry: GeometryColumn,
        options: SourceOptions,
    ) -> ColumnLayout:
        """Return the layout; SourceError says where a column is missing, and what helps."""
        there = set(schema.names) - {geometry.name}
        peid, key = _identity(where, there, options)
        tags = sorted(options.rules.keys() & there) if options.rules else []
        return cls(
            source=source,
            geometry=geometry,
            peid=peid,
            key=key,
            categories=_category_column(where, schema, there, options),
            name=_named(where, there, options.name_field, "--name-field", (entity.NAME,)),
            attributes=tuple((tag, tag) for tag in tags),
            options=options,
        )

    def columns(self) -> list[str]:
        """Return the columns to read."""
        every = (self.geometry.name, self.peid, self.key, self.categories, self.name)
        named = [column for column in every if column is not None]
        return list(dict.fromkeys([*named, *(column for _, column in self.attributes)]))


def _identity(where: str, there: set[str], options: SourceOptions) -> tuple[str | None, str | None]:
    """Return the columns of peids and of keys."""
    peid = entity.PEID if entity.PEID in there else None
    wanted = None if options.id_field == entity.PEID else options.id_field
    key = _named(where, there, wanted, "--id-field", (entity.KEY, ID))
    if peid is None and key is None:
        raise SourceError(
            f"{where}: no column {entity.PEID!r}, {entity.KEY!r} or {ID!r}: name a column that is "
            f"different in each row with --id-field ({_listed(there)})"
        )
    return peid, key


def _category_column(
    where: str, schema: pa.Schema, there: set[str], options: SourceOptions
) -> str | None:
    defaults = (entity.CATEGORIES, CATEGORY)
    column = _named(where, there, options.category_field, "--category-field", defaults)
    if column is None and options.category is None and options.rules is None:
        raise SourceError(
            f"{where}: no column {entity.CATEGORIES!r} or {CATEGORY!r}: name the column with "
            f"--category-field, give one category to all rows with --category, or map columns to "
            f"categories with --rules ({_listed(there)})"
        )
    if column is not None and not _holds_categories(schema.field(column).type):
        raise SourceError(
            f"{where}: column {column!r} must be text, whole numbers or a list of strings"
        )
    return column


def _named(
    where: str, there: set[str], wanted: str | None, option: str, defaults: Sequence[str]
) -> str | None:
    """Return the column that an option names, else the first default that is there."""
    if wanted is not None and wanted not in there:
        raise SourceError(f"{where}: no column {wanted!r} that {option} names ({_listed(there)})")
    chosen = defaults if wanted is None else (wanted,)
    return next((name for name in chosen if name in there), None)


def _listed(names: Iterable[str], what: str = "columns") -> str:
    """Return the fields of a source as text, so that a user sees which there are."""
    shown = sorted(map(printable, names))
    more = ", …" if len(shown) > SHOWN_FIELDS else ""
    return f"its {what}: {', '.join(shown[:SHOWN_FIELDS]) or 'none'}{more}"


def _holds_categories(kind: pa.DataType) -> bool:
    """Return whether a column has text, whole numbers or lists of text."""
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view)
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if any(test(kind) for test in lists):
        kind = kind.value_type
    elif pa.types.is_integer(kind) or pa.types.is_null(kind):
        return True
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return any(test(kind) for test in texts)


class FeatureFields:
    """The raw values of all features, column by column, by the options of their source."""

    def __init__(
        self, where: str, features: Sequence[dict[str, Any]], options: SourceOptions
    ) -> None:
        self._where = where
        self._features = features
        self._properties = [_properties(feature) for feature in features]
        self._options = options
        self.peids = self._values(entity.PEID)
        self.keys = self._keys()
        self.categories = self._categories()
        name_field = options.name_field
        self.names = self._named(name_field, "--name-field", (entity.NAME,)) or self._nothing()
        self.tags = None if options.rules is None else self._tags(options.rules.keys())

    def _nothing(self) -> list[Any]:
        return [None] * len(self._features)

    def _values(self, field: str) -> list[Any] | None:
        """Return a property of all features; None if no feature has it."""
        values = [properties.get(field) for properties in self._properties]
        return None if all(value is None for value in values) else values

    def _named(self, field: str | None, option: str, defaults: Sequence[str]) -> list[Any] | None:
        """Return the property that an option names, else the first default that is there."""
        for name in defaults if field is None else (field,):
            if (values := self._values(name)) is not None:
                return values
        if field is not None and self._features:
            raise SourceError(
                f"{self._where}: no feature has the property {field!r} that {option} names "
                f"({self._fields()})"
            )
        return None

    def _keys(self) -> list[Any] | None:
        """Return the keys: a property that is named, else the ``id`` of the features (RFC 7946)."""
        wanted = self._options.id_field
        if wanted not in (None, ID, entity.PEID):
            return self._named(wanted, "--id-field", ())
        members = [feature.get(ID) for feature in self._features]
        if any(member is not None for member in members):
            return members
        keys = self._values(ID)
        if keys is None and self.peids is None and self._features:
            raise SourceError(
                f"{self._where}: no feature has an id or the property {entity.PEID!r}: name a "
                f"property that is different in each feature with --id-field ({self._fields()})"
            )
        return keys

    def _categories(self) -> list[Any]:
        options = self._options
        field = options.category_field
        values = self._named(field, "--category-field", (entity.CATEGORIES, CATEGORY))
        has_other = options.category is not None or options.rules is not None
        if values is None and not has_other and self._features:
            raise SourceError(
                f"{self._where}: no feature has the property {entity.CATEGORIES!r} or "
                f"{CATEGORY!r}: name the property with --category-field, give one category to all "
                f"with --category, or map properties to categories with --rules ({self._fields()})"
            )
        return values or self._nothing()

    def _tags(self, keys: frozenset[str]) -> list[dict[str, str]]:
        return [
            {key: text for key in keys & properties.keys() if (text := tag_text(properties[key]))}
            for properties in self._properties
        ]

    def _fields(self) -> str:
        """Return the properties that the features have, as text."""
        return _listed({name for each in self._properties for name in each}, "properties")


def _properties(feature: dict[str, Any]) -> dict[str, Any]:
    properties = feature.get("properties")
    return properties if isinstance(properties, dict) else {}
