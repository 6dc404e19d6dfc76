"""Warnings about a neighborhood that depend on the world version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemas.language.categories import likely_pattern
from schemas.language.neighborhood import Neighborhood

PATTERNS_NAMED: Final = 5


def world_warnings(
    neighborhood: Neighborhood,
    unmatched_patterns: Sequence[str],
    members: int,
    version: int,
    categories: Sequence[str],
) -> list[str]:
    """Return a line for each pattern without a category, and one for an empty neighborhood."""
    warnings = pattern_warnings(neighborhood, unmatched_patterns, version, categories)
    if not members:
        warnings.append(f"the neighborhood is empty in world version {version}")
    return warnings


def pattern_warnings(
    neighborhood: Neighborhood,
    unmatched_patterns: Sequence[str],
    version: int,
    categories: Sequence[str],
) -> list[str]:
    """Return a line for each pattern that matches none of the categories of the version."""
    warnings = []
    for pattern in unmatched_patterns[:PATTERNS_NAMED]:
        meant = likely_pattern(pattern, categories)
        hint = f"; did you mean {meant}?" if meant else ""
        warnings.append(
            f"stage {_stage_of(neighborhood, pattern)}: no category of world version {version} "
            f"matches {pattern}{hint}"
        )
    left = len(unmatched_patterns) - PATTERNS_NAMED
    if left > 0:
        warnings.append(f"{left} more category patterns match no category")
    return warnings


def _stage_of(neighborhood: Neighborhood, pattern: str) -> int:
    """Return the first written-out stage that has the pattern."""
    stages = neighborhood.written_out()
    return next((one.number for one in stages if pattern in one.categories), 1)
