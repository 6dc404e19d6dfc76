"""The exact resolver on the sample world: real geometry, compared with every pair by force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import shapely

from schemas.language.condition_parser import parse_condition
from schemas.language.conditions import Condition, Leaf, Topological, WithinDistance, fold
from schemas.language.neighborhood import Neighborhood, Stage
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver
from world.snapshot import load_snapshot

# GEOS' own predicates: on real geometry they say what the matrix of the pair says.
PREDICATES = {
    "I": shapely.intersects,
    "D": shapely.disjoint,
    "T": shapely.touches,
    "C": shapely.contains,
    "W": shapely.within,
    "CV": shapely.covers,
    "X": shapely.crosses,
    "O": shapely.overlaps,
}
CONDITIONS = ("C", "W", "T", "X", "O", "I", "CV", "D", "DW40", "T OR DW5", "NOT DW2000", "C AND B")


@pytest.fixture(scope="module")
def monaco(monaco_world: str) -> EntityTable:
    return load_snapshot(monaco_world)


def by_force(table: EntityTable, references: Any, condition: Condition) -> set[int]:
    """Every pair of the references with every entity, without any index."""
    selected = np.zeros(len(table), np.bool_)
    for reference in references:
        geometry = table.geometries[reference]

        def holds(leaf: Leaf, geometry: Any = geometry) -> Any:
            match leaf:
                case WithinDistance(metres):
                    return shapely.distance(geometry, table.geometries) <= metres
                case Topological("B"):
                    on_border = "***T*****", "****T****"
                    others = table.geometries
                    return np.any(
                        [shapely.relate_pattern(geometry, others, m) for m in on_border], axis=0
                    )
                case Topological(short):
                    return PREDICATES[short](geometry, table.geometries)
            raise AssertionError(leaf)

        selected |= fold(condition, holds, np.logical_not, np.logical_and, np.logical_or)
    selected[references] = False
    return set(table.peids[selected].tolist())


@pytest.mark.parametrize("text", CONDITIONS)
def test_every_pair_by_force(monaco: EntityTable, text: str) -> None:
    rng = np.random.default_rng(5)
    large = np.argsort(shapely.get_num_coordinates(monaco.geometries))[-200:]
    references = np.unique([*rng.choice(large, 2), *rng.choice(len(monaco), 4)])
    condition = parse_condition(text)
    refs = tuple(monaco.peids[references].tolist())
    neighborhood = Neighborhood(refs, (Stage(("#",), condition),), (True,))
    found = ExactResolver(monaco).resolve(neighborhood).stages[0]
    assert set(found.tolist()) == by_force(monaco, references, condition)


def test_warm_up_gives_what_is_computed_on_demand(monaco: EntityTable) -> None:
    """Pairs seen from both sides at once, on everything that a real city has."""
    warm, cold = ExactResolver(monaco), ExactResolver(monaco)
    assert warm.warm_up()
    every = tuple(monaco.peids[::7].tolist())
    for text in ("C", "T", "O", "Relate(***T*****)", "Relate(F**1*****)", "Relate(*****T*F*)"):
        stages = (Stage(("#",), parse_condition(text)),)
        neighborhood = Neighborhood(every, stages, (True,))
        found, expected = warm.resolve(neighborhood), cold.resolve(neighborhood)
        assert found.stages[0].tolist() == expected.stages[0].tolist()
