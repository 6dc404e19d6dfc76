"""A resolved neighborhood as a file: a map page, or GeoJSON (RFC 7946) for any map program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import shapely
from pyproj import Transformer

from schemas.entity import CATEGORIES, NAME, PEID
from schemas.language.explain import stage_words
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import notation
from schemas.membership import STAGE_NO
from spaps.map_page.page import PageTexts, map_page
from spatial_udfs.entity_keys import key_at
from spatial_udfs.entity_table import EntityTable, Geometries
from spatial_udfs.exact.exact_resolver import Resolution
from world.versions.version_tables import VersionFacts

WGS84: Final = 4326
# Seven decimals of a degree are a centimetre on the ground.
DECIMALS: Final = 7


def page_of(
    table: EntityTable, neighborhood: Neighborhood, resolution: Resolution, facts: VersionFacts
) -> str:
    """Return the map page of a resolved neighborhood."""
    words = PageTexts(
        title=neighborhood.name or "Neighborhood",
        notation=notation(neighborhood),
        stages=stage_words(neighborhood, reference_names(table, neighborhood)),
        attribution=facts.attribution(),
    )
    return map_page(table, neighborhood, resolution, words)


def reference_names(table: EntityTable, neighborhood: Neighborhood) -> dict[int, str]:
    """Return the names of references by peid, where they exist and have one."""
    positions, _ = table.positions_of(np.array(neighborhood.refs, np.int64))
    return {
        int(table.peids[position]): table.names[position]
        for position in positions
        if table.names[position]
    }


def geojson(table: EntityTable, neighborhood: Neighborhood, resolution: Resolution) -> str:
    """Return one feature for each reference (``stageNo`` 0) and each row of the result.

    The key is its id. Peids are texts, because JavaScript rounds numbers above 2^53. A place is a
    reference without id and peid.
    """
    collection = {
        "type": "FeatureCollection",
        "features": list(_features(table, neighborhood, resolution)),
    }
    return json.dumps(collection, ensure_ascii=False)


def _features(
    table: EntityTable, neighborhood: Neighborhood, resolution: Resolution
) -> Iterator[dict[str, Any]]:
    references = np.array(neighborhood.refs, np.int64)
    shown = [
        (number, members)
        for number, members in enumerate(resolution.stages, start=1)
        if resolution.visible[number - 1]
    ]
    for number, peids in [(0, references), *shown]:
        positions, _ = table.positions_of(peids)
        geometries = _in_degrees(table.geometries[positions], table.srid)
        for position, geometry in zip(positions.tolist(), geometries, strict=True):
            yield {
                "type": "Feature",
                "id": key_at(table, position),
                "geometry": json.loads(shapely.to_geojson(geometry)),
                "properties": {
                    PEID: str(table.peids[position]),
                    STAGE_NO: number,
                    NAME: table.names[position],
                    CATEGORIES: list(table.categories_at(position)),
                },
            }
    for place in neighborhood.places:
        yield {
            "type": "Feature",
            "geometry": json.loads(shapely.to_geojson(shapely.from_wkt(place))),
            "properties": {PEID: None, STAGE_NO: 0, NAME: None, CATEGORIES: []},
        }


def _in_degrees(geometries: Geometries, srid: int) -> Geometries:
    """Return longitude and latitude; shells counter-clockwise as the RFC wants them."""
    to_degrees = Transformer.from_crs(srid, WGS84, always_xy=True)

    def transform(coordinates: Any) -> Any:
        east, north = to_degrees.transform(coordinates[:, 0], coordinates[:, 1])
        return np.round(np.column_stack([east, north]), DECIMALS)

    moved: Geometries = shapely.orient_polygons(shapely.transform(geometries, transform))
    return moved
