"""Everything beside the sources that decides what a version contains."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from schemas.errors import SettingsError
from world.imports.projection import given_crs
from world.sources.categories import category_fault
from world.sources.osm.rules import Rules, load_rules
from world.sources.source_files import SourceKind
from world.versions.version_facts import SourceFacts

# Counts up when the same sources by the same rules give other entities than before.
IMPORTER_GENERATION: Final = 1


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Checked options of an import; made by ``checked``."""

    srid: int | None
    rules: Rules
    category: str | None
    id_field: str | None

    @classmethod
    def checked(
        cls,
        *,
        srid: int | None,
        rules: str | Path | None,
        category: str | None,
        id_field: str | None,
    ) -> ImportOptions:
        """The options, or an error that names the wrong one, before anything is read."""
        if srid is not None:
            given_crs(srid)
        if category is not None:
            category = category.removesuffix("/")
            fault = category_fault(category)
            if fault is not None:
                raise SettingsError(f"--category: {fault}")
        return cls(srid, load_rules(rules), category, id_field)

    def fingerprint(self, sources: Sequence[SourceFacts]) -> str:
        """One checksum of all options; rules count only where an OSM source is read by them."""
        uses_rules = any(source.kind == SourceKind.OSM for source in sources)
        written = {
            "generation": IMPORTER_GENERATION,
            "srid": self.srid,
            "category": self.category,
            "idField": self.id_field,
            "rules": self.rules.sha256 if uses_rules else None,
        }
        return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()
