"""Finds out which columns of a source are what, for all sources that are read as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyproj import CRS

from schemas import entity
from schemas.errors import SourceError
from world.sources.raw_values import printable
from world.sources.source_options import CATEGORY, ID, SourceOptions

SHOWN_COLUMNS: Final = 12


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


def _listed(names: set[str]) -> str:
    shown = sorted(map(printable, names))
    more = ", …" if len(shown) > SHOWN_COLUMNS else ""
    return "its columns: " + (", ".join(shown[:SHOWN_COLUMNS]) or "none") + more


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
