"""The fields of GeoJSON features that become keys, peids, categories and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from schemas import entity
from schemas.errors import SourceError
from world.sources.raw_values import printable, tag_text
from world.sources.source_options import CATEGORY, ID, SourceOptions

SHOWN_FIELDS: Final = 12


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
        names = sorted({printable(name) for each in self._properties for name in each})
        more = ", …" if len(names) > SHOWN_FIELDS else ""
        return "its properties: " + (", ".join(names[:SHOWN_FIELDS]) or "none") + more


def _properties(feature: dict[str, Any]) -> dict[str, Any]:
    properties = feature.get("properties")
    return properties if isinstance(properties, dict) else {}
