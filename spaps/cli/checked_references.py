"""Looks a neighborhood up in a world, without resolving anything."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from schemas.language.categories import CategoryTree
from schemas.language.neighborhood import Neighborhood
from schemas.language.world_warnings import (
    missing_warning,
    missing_words,
    no_reference,
    pattern_warnings,
)
from spatial_udfs.entity_keys import bound_to
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.place_geometries import projected_places
from world.snapshot import load_attributes


class CheckedNeighborhood(NamedTuple):
    """A neighborhood with peids for keys and names, the names of its references, and warnings."""

    neighborhood: Neighborhood
    names: dict[int, str]
    warnings: list[str]


def checked_references(
    neighborhood: Neighborhood, world: str, version: int | None
) -> CheckedNeighborhood:
    """Return the neighborhood as a version knows it: references that lack, patterns that select.

    NoReferenceError when the version has none of the references.
    """
    table = load_attributes(world, version)
    bound, unknown = bound_to(neighborhood, table)
    there, missing = table.positions_of(np.array(bound.refs, np.int64))
    places, lacking = projected_places(bound.places, table.srid)
    if not len(there) and not len(places):
        raise no_reference(neighborhood, table.version)
    unmatched = _unmatched(bound, table)
    warnings = pattern_warnings(bound, unmatched, table.version, table.category_names)
    absent = missing_words(unknown._replace(peids=tuple(missing.tolist()), places=lacking))
    if absent:
        warnings.append(missing_warning(absent, table.version))
    names = {int(table.peids[at]): table.names[at] for at in there.tolist() if table.names[at]}
    return CheckedNeighborhood(bound, names, warnings)


def _unmatched(neighborhood: Neighborhood, table: EntityTable) -> list[str]:
    """Return the category patterns that match no category of the version."""
    tree = CategoryTree(table.category_names)
    patterns = dict.fromkeys(one for stage in neighborhood.stages for one in stage.categories)
    return [pattern for pattern in patterns if not tree.codes([pattern])]
