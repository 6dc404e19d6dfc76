"""What a world version lacks of a neighborhood: references, categories, members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemas.errors import NoReferenceError
from schemas.language.categories import likely_pattern
from schemas.language.neighborhood import Neighborhood, References
from schemas.language.places import place_words
from schemas.language.references import KEY, NAME, quoted

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


def no_reference(neighborhood: Neighborhood, version: int) -> NoReferenceError:
    """Return the error for a neighborhood of which the version has no reference."""
    return NoReferenceError(missing_words(neighborhood), version)


def missing_words(missing: Neighborhood | References) -> tuple[int | str, ...]:
    """Return references for a list of those that do not exist: peids, and the others in words."""
    peids = missing.refs if isinstance(missing, Neighborhood) else missing.peids
    return (
        *peids,
        *(f"{KEY}:{key}" for key in missing.keys),
        *(f"{NAME}:{quoted(name)}" for name in missing.names),
        *map(place_words, missing.places),
    )


def missing_warning(missing: Sequence[int | str], version: int) -> str:
    """Return the warning about references that the version does not have."""
    return f"not in world version {version}: {', '.join(map(str, missing))}"
