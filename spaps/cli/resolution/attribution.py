"""Whose data a world is made of, where its licence wants that said."""

from __future__ import annotations

from typing import Final

from world.sources.source_files import SourceKind
from world.versions.version_facts import VersionFacts

OPENSTREETMAP: Final = "© OpenStreetMap contributors, ODbL 1.0"


def attribution(facts: VersionFacts) -> str:
    """The line for everything that shows this version to people; '' where none is asked for."""
    return OPENSTREETMAP if any(source.kind == SourceKind.OSM for source in facts.sources) else ""
