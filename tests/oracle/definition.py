"""The slow oracle: the contract's definition as two loops, one pair at a time.

It shares the descriptor's objects with the engines and nothing else: no index, no table of
masks, no writing-out of stages, no category tree. Every relation is read from the one matrix of
the pair, which is GEOS' relate with the lower peid first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import shapely
from pyproj import Transformer
from shapely import from_wkt, transform

from schemas.language.conditions import (
    And,
    Condition,
    Leaf,
    Not,
    Or,
    Relate,
    Topological,
    WithinDistance,
)
from schemas.language.neighborhood import Neighborhood, Stage
from spatial_udfs.entity_table import EntityTable


@dataclass(frozen=True)
class Entity:
    """One entity as the contract speaks of it."""

    peid: int
    geometry: Any
    categories: tuple[str, ...]


def entities_of(table: EntityTable) -> list[Entity]:
    """The table, entity by entity."""
    entities = []
    for place, peid in enumerate(table.peids.tolist()):
        start, end = table.category_offsets[place], table.category_offsets[place + 1]
        categories = tuple(table.category_names[code] for code in table.category_codes[start:end])
        entities.append(Entity(peid, table.geometries[place], categories))
    return entities


def places_of(neighborhood: Neighborhood, srid: int) -> list[Entity]:
    """The places as things that come first of every pair; they are in no category."""
    transformer = Transformer.from_crs("OGC:CRS84", srid, always_xy=True)
    return [
        Entity(number, transform(from_wkt(place), transformer.transform, interleaved=False), ())
        for number, place in enumerate(neighborhood.places, start=-len(neighborhood.places))
    ]


def resolve_by_definition(
    entities: Sequence[Entity], neighborhood: Neighborhood, srid: int = 0
) -> tuple[list[set[int]], set[int]]:
    """Members of every stage, and the references that do not exist; ``srid`` is for places."""
    world = {entity.peid: entity for entity in entities}
    places = places_of(neighborhood, srid) if neighborhood.places else []
    members: dict[int, set[int]] = {0: {peid for peid in neighborhood.refs if peid in world}}
    number = 0
    for stage in neighborhood.stages:
        for _ in range(stage.repeat):
            number += 1
            if number == 1:
                sources = [0]
            elif stage.ref_stages == "Prev":
                sources = list(range(1, number))
            elif stage.ref_stages == "Anc":
                sources = [number - 1]
            else:
                sources = list(stage.ref_stages or ())
            references = {peid for source in sources for peid in members[source]}
            known = [world[peid] for peid in references] + (places if number == 1 else [])
            members[number] = _stage(world, references, known, stage)
    missing = {peid for peid in neighborhood.refs if peid not in world}
    return [members[place] for place in range(1, number + 1)], missing


def _stage(
    world: Mapping[int, Entity],
    excluded: set[int],
    references: Sequence[Entity],
    stage: Stage,
) -> set[int]:
    selected = set()
    for peid, entity in world.items():
        if peid in excluded or not _has_category(entity, stage.categories):
            continue
        for reference in references:
            if holds(stage.condition, reference, entity):
                selected.add(peid)
                break
    return selected


def holds(condition: Condition, reference: Entity, entity: Entity) -> bool:
    """The condition on one pair."""
    match condition:
        case Not(operand):
            return not holds(operand, reference, entity)
        case And(operands):
            return all(holds(operand, reference, entity) for operand in operands)
        case Or(operands):
            return any(holds(operand, reference, entity) for operand in operands)
        case _:
            return _relation_holds(condition, reference, entity)


def _relation_holds(relation: Leaf, reference: Entity, entity: Entity) -> bool:
    if isinstance(relation, WithinDistance):
        return distance_of(reference, entity) <= relation.metres
    dimensions = shapely.get_dimensions([reference.geometry, entity.geometry])
    return holds_for_matrix(relation, pair_matrix(reference, entity), *dimensions.tolist())


def holds_for_matrix(
    relation: Topological | Relate, matrix: str, reference: int, entity: int
) -> bool:
    """Whether the relation holds for a pair with this matrix and these dimensions."""
    match relation:
        case Relate(mask):
            return _fits(matrix, mask)
        case Topological(short):
            return _named(short, matrix, reference, entity)


def _named(short: str, matrix: str, reference: int, entity: int) -> bool:
    if short == "X":
        if reference == entity:
            return reference == 1 and matrix[0] == "0"
        return matrix[0] != "F" and matrix[2 if reference < entity else 6] != "F"
    if short == "O":
        inside = matrix[0] == "1" if reference == 1 else matrix[0] != "F"
        return reference == entity and inside and matrix[2] != "F" and matrix[6] != "F"
    return BY_MATRIX[short](matrix)


def meet(matrix: str) -> bool:
    """Whether a pair with this matrix shares a point."""
    return matrix[0] + matrix[1] + matrix[3] + matrix[4] != "FFFF"


# Relations that look at the matrix alone; its last row is about what of e lies outside of r.
BY_MATRIX = {
    "I": meet,
    "D": lambda matrix: not meet(matrix),
    "T": lambda matrix: meet(matrix) and matrix[0] == "F",
    "B": lambda matrix: matrix[3:5] != "FF",
    "C": lambda matrix: matrix[0] != "F" and matrix[6:8] == "FF",
    "W": lambda matrix: matrix[0] != "F" and matrix[2] + matrix[5] == "FF",
    "CV": lambda matrix: meet(matrix) and matrix[6:8] == "FF",
    "CB": lambda matrix: meet(matrix) and matrix[2] + matrix[5] == "FF",
    "E": lambda matrix: matrix[0] != "F" and matrix[6:8] + matrix[2] + matrix[5] == "FFFF",
}


def distance_of(reference: Entity, entity: Entity) -> float:
    """The distance: 0 for a pair that shares a point, else what GEOS measures.

    GEOS measures some 1e-17 for pairs that meet at a computed crossing.
    """
    if meet(pair_matrix(reference, entity)):
        return 0.0
    return float(shapely.distance(reference.geometry, entity.geometry))


def pair_matrix(reference: Entity, entity: Entity) -> str:
    """The one matrix of the pair: computed with the lower peid first, then seen from r."""
    if reference.peid < entity.peid:
        return matrix_of(reference.geometry, entity.geometry)
    return turned(matrix_of(entity.geometry, reference.geometry))


def turned(matrix: str) -> str:
    """The transposed matrix."""
    return "".join(matrix[3 * column + row] for row in range(3) for column in range(3))


def matrix_of(first: Any, second: Any) -> str:
    """The matrix in this order; what multi-lines' boundaries have outside is from its definition.

    GEOS may overlook boundary points there (locationtech/jts issue 1175).
    """
    cells = list(shapely.relate(first, second))
    if first.geom_type == "MultiLineString":
        cells[5] = _dimension_outside(first.boundary, second)
    if second.geom_type == "MultiLineString":
        cells[7] = _dimension_outside(second.boundary, first)
    return "".join(cells)


def _dimension_outside(points: Any, geometry: Any) -> str:
    return "F" if all(shapely.intersects(geometry, point) for point in points.geoms) else "0"


def _fits(matrix: str, mask: str) -> bool:
    for cell, wanted in zip(matrix, mask, strict=True):
        if wanted == "*":
            continue
        if wanted == "T":
            if cell not in "012":
                return False
        elif cell != wanted:
            return False
    return True


def _has_category(entity: Entity, patterns: tuple[str, ...]) -> bool:
    return any(matches(pattern, category) for pattern in patterns for category in entity.categories)


def matches(pattern: str, category: str) -> bool:
    """An MQTT topic filter against a topic, level by level; a trailing ``/`` is ignored."""
    wanted = pattern.removesuffix("/").split("/")
    levels = category.split("/")
    while wanted:
        if wanted == ["#"]:
            return True
        if not levels or wanted[0] not in ("+", levels[0]):
            return False
        wanted, levels = wanted[1:], levels[1:]
    return not levels
