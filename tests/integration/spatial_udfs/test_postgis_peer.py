"""The peer of the benchmarks gives the same rows, and an older GEOS the same matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import shapely
from hypothesis import HealthCheck, Phase, example, given, settings

from schemas.language.condition_parser import parse_condition
from schemas.language.descriptor_json import parse_descriptor
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import parse_notation
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver
from testing.neighborhood_patterns import PATTERNS, descriptors
from testing.postgis_peer import PostgisPeer, condition_sql, postgis_peer
from testing.synthetic_city import synthetic_city
from tests.oracle.definition import matrix_of
from tests.strategies.worlds import EXACT_PLACEMENTS, table_of, worlds

CONDITIONS = (
    "E", "I", "D", "T", "C", "W", "CV", "CB", "X", "O", "B", "DW75", "NOT DW300",
    "Relate(FF2******)", "C AND B", "T OR DW20", "D AND DW60", "NOT (T OR C)",
)  # fmt: skip

# Where the current GEOS overlooks a boundary point outside (locationtech/jts issue 1175).
SHARED_ENDS = table_of(
    (peid, ("route",), shapely.from_wkt(text))
    for peid, text in enumerate(
        (
            "MULTILINESTRING ((1 0, 0 0), (-5 0, 0 0))",
            "MULTILINESTRING ((0 0, 0 1, 0 0), (0 1, 1 0))",
            "LINESTRING (1 0, 2 0)",
            "POINT (1 0)",
            "POINT (0 2)",
        )
    )
)


@pytest.fixture(scope="module")
def city() -> EntityTable:
    return synthetic_city(1_500, seed=7)


@pytest.fixture(scope="module")
def peer(program: Callable[[str], Path], city: EntityTable) -> Iterator[PostgisPeer]:
    program("postgis-3.so")
    with postgis_peer(city) as running:
        yield running


def rows_of(resolver: ExactResolver, neighborhood: Neighborhood) -> list[tuple[int, int]]:
    peids, numbers = resolver.resolve(neighborhood).rows()
    return sorted(zip(peids.tolist(), numbers.tolist(), strict=True))


@pytest.mark.parametrize("title", PATTERNS)
def test_patterns_of_the_benchmark(city: EntityTable, peer: PostgisPeer, title: str) -> None:
    resolver = ExactResolver(city)
    found = 0
    for descriptor in descriptors(city, title, 5, seed=1):
        neighborhood = parse_descriptor(descriptor)
        expected = rows_of(resolver, neighborhood)
        assert sorted(peer.resolve(neighborhood)) == expected
        assert sorted(peer.resolve(neighborhood, frontier=True)) == expected
        found += len(expected)
    assert found


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_relation(city: EntityTable, peer: PostgisPeer, condition: str) -> None:
    rng = np.random.default_rng(2)
    resolver = ExactResolver(city)
    refs = ",".join(map(str, rng.choice(city.peids, size=6, replace=False)))
    notation = f"({{{refs}}},{{#}},I) • (Prev,{{#}},{condition})"
    neighborhood = parse_notation(notation)
    assert sorted(peer.resolve(neighborhood)) == rows_of(resolver, neighborhood)


def test_conditions_keep_their_precedence_in_sql() -> None:
    sql = condition_sql(parse_condition("NOT T OR C AND DW2.5"))
    assert sql == (
        "((NOT ST_Touches(r.geom, e.geom)) OR "
        "(ST_Contains(r.geom, e.geom) AND ST_DWithin(r.geom, e.geom, 2.5)))"
    )


@settings(
    max_examples=150,
    deadline=None,
    # The same examples in every run: what an old GEOS makes of others proves nothing about us.
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(world=SHARED_ENDS)
@given(world=worlds(max_entities=8, placements=EXACT_PLACEMENTS))
def test_an_older_geos_gives_the_same_matrices(peer: PostgisPeer, world: EntityTable) -> None:
    """Before RelateNG the matrix was computed in another way: two witnesses, not one.

    That way computed crossing points and rounded them, so it is no witness for lines that
    cross themselves, nor for coordinates that are rounded themselves.
    """
    geometries = world.geometries[shapely.is_simple(world.geometries)]
    texts = [shapely.to_wkb(geometry, hex=True) for geometry in geometries]
    query = """SELECT ST_Relate(r.g, e.g) FROM unnest(%(g)s::text[]) WITH ORDINALITY AS r(g, i),
        unnest(%(g)s::text[]) WITH ORDINALITY AS e(g, i) ORDER BY r.i, e.i"""
    found = [row[0] for row in peer.query(query, {"g": texts})]
    assert found == [matrix_of(r, e) for r in geometries for e in geometries]
