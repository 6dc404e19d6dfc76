"""Warnings about a neighborhood that depend on the world version, for its SUBACK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemas.language.neighborhood import Neighborhood

PATTERNS_NAMED: Final = 5


def world_warnings(
    neighborhood: Neighborhood, unmatched_patterns: Sequence[str], members: int, version: int
) -> list[str]:
    """Return a line for each pattern without a category, and one for an empty neighborhood."""
    warnings = [
        f"stage {_stage_of(neighborhood, pattern)}: no category of world version {version} "
        f"matches {pattern}"
        for pattern in unmatched_patterns[:PATTERNS_NAMED]
    ]
    left = len(unmatched_patterns) - PATTERNS_NAMED
    if left > 0:
        warnings.append(f"{left} more category patterns match no category")
    if not members:
        warnings.append(f"the neighborhood is empty in world version {version}")
    return warnings


def _stage_of(neighborhood: Neighborhood, pattern: str) -> int:
    """Return the first written-out stage that has the pattern."""
    stages = neighborhood.written_out()
    return next((one.number for one in stages if pattern in one.categories), 1)
