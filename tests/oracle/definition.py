"""The slow oracle: the contract's definition as two loops, one pair at a time.

It shares the descriptor's objects with the engines and nothing else: no index, no masks of
ours, no writing-out of stages, no category tree. Relations are shapely's own predicates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import shapely

from schemas.conditions import And, Condition, Leaf, Not, Or, Relate, Topological, WithinDistance
from schemas.neighborhood import Neighborhood
from spatial_udfs.entity_table import EntityTable

PREDICATES = {
    "E": shapely.equals,
    "I": shapely.intersects,
    "D": shapely.disjoint,
    "T": shapely.touches,
    "C": shapely.contains,
    "W": shapely.within,
    "CV": shapely.covers,
    "CB": shapely.covered_by,
    "X": shapely.crosses,
    "O": shapely.overlaps,
}


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


def resolve_by_definition(
    entities: Sequence[Entity], neighborhood: Neighborhood
) -> tuple[list[set[int]], set[int]]:
    """Members of every stage, and the references that do not exist."""
    world = {entity.peid: entity for entity in entities}
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
            members[number] = _stage(world, references, stage.categories, stage.condition)
    missing = {peid for peid in neighborhood.refs if peid not in world}
    return [members[place] for place in range(1, number + 1)], missing


def _stage(
    world: Mapping[int, Entity],
    references: set[int],
    patterns: tuple[str, ...],
    condition: Condition,
) -> set[int]:
    selected = set()
    for peid, entity in world.items():
        if peid in references or not _has_category(entity, patterns):
            continue
        for reference in references:
            if holds(condition, world[reference].geometry, entity.geometry):
                selected.add(peid)
                break
    return selected


def holds(condition: Condition, reference: Any, entity: Any) -> bool:
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


def _relation_holds(relation: Leaf, reference: Any, entity: Any) -> bool:
    match relation:
        case WithinDistance(metres):
            return bool(shapely.distance(reference, entity) <= metres)
        case Relate(mask):
            return _fits(matrix_of(reference, entity), mask)
        case Topological("B"):
            matrix = shapely.relate(reference, entity)
            return _fits(matrix, "***T*****") or _fits(matrix, "****T****")
        case Topological(short):
            return bool(PREDICATES[short](reference, entity))


def matrix_of(reference: Any, entity: Any) -> str:
    """The DE-9IM matrix; what multi-lines' boundaries have outside is taken from its definition.

    GEOS may overlook boundary points there (locationtech/jts issue 1175).
    """
    cells = list(shapely.relate(reference, entity))
    if reference.geom_type == "MultiLineString":
        cells[5] = _dimension_outside(reference.boundary, entity)
    if entity.geom_type == "MultiLineString":
        cells[7] = _dimension_outside(entity.boundary, reference)
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
