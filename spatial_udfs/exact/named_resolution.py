"""Resolves a neighborhood as a person writes it: with keys, names and places as references."""

from __future__ import annotations

from typing import NamedTuple

from schemas.errors import NoReferenceError
from schemas.language.explain import neighborhood_warnings
from schemas.language.neighborhood import Neighborhood
from schemas.language.reference_words import missing_warning, missing_words, no_reference
from schemas.language.world_warnings import pattern_warnings
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver, Resolution
from spatial_udfs.named_references import NamedPositions, bound_to


class NamedResolution(NamedTuple):
    """What was resolved: the neighborhood has peids in place of keys and names.

    ``missing`` are the references that the version does not have, for a person.
    """

    neighborhood: Neighborhood
    resolution: Resolution
    missing: tuple[int | str, ...]

    def warnings(self, resolver: ExactResolver, table: EntityTable) -> list[str]:
        """Return what a person should know: stages and patterns without effect, what is missing."""
        unmatched = resolver.unmatched_patterns(self.neighborhood)
        found = [
            *neighborhood_warnings(self.neighborhood),
            *pattern_warnings(self.neighborhood, unmatched, table.version, table.category_names),
        ]
        if self.missing:
            found.append(missing_warning(self.missing, table.version))
        return found


def resolve_named(
    resolver: ExactResolver,
    table: EntityTable,
    neighborhood: Neighborhood,
    known: NamedPositions | None = None,
) -> NamedResolution:
    """Return the members on the version that ``table`` is; ``resolver`` works on the same.

    ``known`` are the keys and names of several neighborhoods, for one of many.
    """
    bound, unknown = bound_to(neighborhood, table, known)
    try:
        resolution = resolver.resolve(bound)
    except NoReferenceError:
        raise no_reference(neighborhood, table.version) from None
    missing = unknown._replace(peids=resolution.missing_refs, places=resolution.missing_places)
    return NamedResolution(bound, resolution, missing_words(missing))
