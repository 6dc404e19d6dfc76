"""The options of one source: which of its fields are what, and what is added to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyproj import CRS
from pyproj.exceptions import CRSError

from schemas.entity import key_fault
from schemas.errors import SettingsError
from world.sources.osm.rules import Rules, load_rules
from world.sources.raw_values import category_fault

# The usual name of a field of identifiers.
ID: Final = "id"
# A field of one category, beside the field ``categories``.
CATEGORY: Final = "category"
# Names of options, as in an import file and, with hyphens, on the command line.
OPTION_NAMES: Final = (
    "id_field", "key_prefix", "category_field", "category", "rules", "name_field",
    "geometry_field", "crs", "layer",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one source; ``checked`` makes them. None means: as usual for its format."""

    id_field: str | None = None
    # Stands before each key, so that two sources with ids 1, 2, 3 have different keys.
    key_prefix: str | None = None
    category_field: str | None = None
    # Stands before each category, or alone where a row has none.
    category: str | None = None
    # Attributes to categories; None: those of OSM for OSM, nothing for other sources.
    rules: Rules | None = None
    name_field: str | None = None
    geometry_field: str | None = None
    # The CRS of a source that does not say it.
    crs: CRS | None = None
    # The layer of a GeoPackage.
    layer: str | None = None

    @classmethod
    def checked(cls, given: Mapping[str, Any], where: str = "") -> SourceOptions:
        """Return the options; SettingsError names a wrong one before any source is read.

        ``where`` stands before the name of an option in errors: ``--`` for a command.
        """

        def shown(name: str) -> str:
            return where + (name.replace("_", "-") if where == "--" else name)

        for name, value in given.items():
            if name not in OPTION_NAMES:
                raise SettingsError(f"{where}{name}: unknown; known: {', '.join(OPTION_NAMES)}")
            if value is not None and name not in ("rules", "crs") and not isinstance(value, str):
                raise SettingsError(f"{shown(name)} must be a text")
            if value == "":
                raise SettingsError(f"{shown(name)} is empty")
        chosen = {name: value for name, value in given.items() if value is not None}
        if "category" in chosen:
            chosen["category"] = chosen["category"].removesuffix("/")
            _refuse(category_fault(chosen["category"]), f"{where}category")
        if "key_prefix" in chosen:
            _refuse(key_fault(chosen["key_prefix"]), shown("key_prefix"))
        if "rules" in chosen:
            chosen["rules"] = load_rules(chosen["rules"])
        if "crs" in chosen:
            chosen["crs"] = _crs(chosen["crs"], f"{where}crs")
        return cls(**chosen)

    def osm_rules(self) -> Rules:
        """Return the rules for an OSM extract."""
        return load_rules() if self.rules is None else self.rules

    def changes_values(self) -> bool:
        """Return whether keys or categories are others than the file has."""
        return any((self.key_prefix, self.category, self.rules))

    def written(self, *, is_osm: bool) -> dict[str, str | None]:
        """Return the options that decide what comes out of the source, as text."""
        rules = self.osm_rules() if is_osm else self.rules
        written = {
            name: None if (value := getattr(self, name)) is None else str(value)
            for name in OPTION_NAMES
        }
        return written | {
            "rules": rules.sha256 if rules else None,
            "crs": self.crs.to_wkt() if self.crs else None,
        }


def _refuse(fault: str | None, what: str) -> None:
    if fault is not None:
        raise SettingsError(f"{what}: {fault}")


def _crs(value: Any, what: str) -> CRS:
    try:
        return CRS.from_user_input(value)
    except CRSError as error:
        raise SettingsError(
            f"{what}: {str(value)[:40]!r} is no CRS: give an EPSG code such as EPSG:25833"
        ) from error
