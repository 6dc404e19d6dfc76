"""Whatever a person types for a neighborhood: JSON or the compact notation."""

from __future__ import annotations

from schemas.language.descriptor_json import parse_descriptor
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import parse_notation


def read_neighborhood(text: str) -> Neighborhood:
    """The neighborhood; the first character decides, because no notation begins with ``{``."""
    return parse_descriptor(text) if text.lstrip().startswith("{") else parse_notation(text)
