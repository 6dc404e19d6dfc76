"""Looks the references of a neighborhood up in a world, without resolving anything."""

from __future__ import annotations

import numpy as np

from schemas.language.neighborhood import Neighborhood
from schemas.language.reference_words import missing_words, no_reference
from spatial_udfs.named_references import bound_to
from spatial_udfs.place_geometries import projected_places
from world.entity_lookup import open_lookup


def checked_references(
    neighborhood: Neighborhood, world: str, version: int | None
) -> tuple[Neighborhood, str]:
    """Return the neighborhood with peids for keys and names, and a warning, "" if none.

    NoReferenceError when the version has none of the references.
    """
    table = open_lookup(world, version).table
    bound, unknown = bound_to(neighborhood, table)
    there, missing = table.positions_of(np.array(bound.refs, np.int64))
    places, lacking = projected_places(bound.places, table.srid)
    if not len(there) and not len(places):
        raise no_reference(neighborhood, table.version)
    absent = missing_words(unknown._replace(peids=tuple(missing.tolist()), places=lacking))
    if not absent:
        return bound, ""
    return bound, f"not in world version {table.version}: {', '.join(map(str, absent))}"
