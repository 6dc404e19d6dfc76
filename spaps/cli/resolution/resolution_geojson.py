"""A resolved neighborhood as GeoJSON (RFC 7946), for any map program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import shapely
from pyproj import Transformer

from schemas.entity import CATEGORIES, NAME, PEID
from schemas.language.neighborhood import Neighborhood
from schemas.membership import STAGE_NO
from spatial_udfs.entity_table import EntityTable, Geometries
from spatial_udfs.exact.exact_resolver import Resolution

WGS84 = 4326
# Seven decimals of a degree are a centimetre on the ground.
DECIMALS = 7


def geojson(table: EntityTable, neighborhood: Neighborhood, resolution: Resolution) -> str:
    """One feature for each reference (``stageNo`` 0) and each row of the result."""
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
                "geometry": json.loads(shapely.to_geojson(geometry)),
                "properties": {
                    PEID: int(table.peids[position]),
                    STAGE_NO: number,
                    NAME: table.names[position],
                    CATEGORIES: list(table.categories_at(position)),
                },
            }


def _in_degrees(geometries: Geometries, srid: int) -> Geometries:
    """Longitude and latitude; shells counter-clockwise as the RFC wants them."""
    to_degrees = Transformer.from_crs(srid, WGS84, always_xy=True)

    def transform(coordinates: Any) -> Any:
        east, north = to_degrees.transform(coordinates[:, 0], coordinates[:, 1])
        return np.round(np.column_stack([east, north]), DECIMALS)

    moved: Geometries = shapely.orient_polygons(shapely.transform(geometries, transform))
    return moved
