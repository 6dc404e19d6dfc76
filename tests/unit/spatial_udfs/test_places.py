"""Places as references: geofences of every kind, and places that cannot be used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import shapely

from schemas.errors import DeadlineError, DescriptorError, NoReferenceError
from schemas.language.notation import parse_notation
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact import related_pairs
from spatial_udfs.exact.exact_resolver import ExactResolver, Resolution
from spatial_udfs.place_geometries import projected_places
from spatial_udfs.resolution_limits import ResolutionLimits
from tests.strategies.worlds import table_of

CRS84 = 4326
UTM = 32632
POLYGON = 3
SQUARE = "POLYGON((0 0,4 0,4 4,0 4,0 0))"


def grid() -> EntityTable:
    """Points at whole degrees; entity 11 is a road from one to the next. 1 degree is 1 unit."""
    rows = [(10 * x + y, ("point",), shapely.Point(x, y)) for x in range(6) for y in (1, 2)]
    rows.append((5, ("road",), shapely.LineString([(1, 1), (2, 1)])))
    return replace(table_of(rows), srid=CRS84)


def resolved(text: str, table: EntityTable | None = None) -> Resolution:
    return ExactResolver(table or grid()).resolve(parse_notation(text))


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("({at:POINT(1 1)},{#},DW1)", {1, 5, 11, 12, 21}),
        ("({at:POINT(1 1)},{point},E)", {11}),
        ("({at:POINT(1 1)},{#},T)", {5}),
        (f"({{at:{SQUARE}}},{{#}},CV)", {1, 2, 5, 11, 12, 21, 22, 31, 32, 41, 42}),
        (f"({{at:{SQUARE}}},{{#}},C)", {5, 11, 12, 21, 22, 31, 32}),
        (f"({{at:{SQUARE}}},{{#}},C AND NOT B)", {5, 11, 12, 21, 22, 31, 32}),
        (f"({{at:{SQUARE}}},{{#}},B)", {1, 2, 41, 42}),
        (f"({{at:{SQUARE}}},{{#}},D)", {51, 52}),
        (f"({{at:{SQUARE}}},{{#}},NOT DW1)", set()),
        ("({at:LINESTRING(0 1,5 1)},{road},C)", {5}),
        # One far reference is enough, be it a place or an entity.
        ("({at:POINT(1 1),at:POINT(5 1)},{point},NOT DW2)",
         {1, 2, 11, 12, 21, 22, 32, 41, 42, 51, 52}),
        ("({at:POINT(2 1),at:POINT(3 1)},{point},NOT DW2)", {1, 2, 12, 42, 51, 52}),
        # An entity that is a reference is excluded, a place never is one.
        ("({11,at:POINT(1 1)},{#},DW1)", {1, 5, 12, 21}),
        # A place is a reference of stage 1 alone.
        ("({at:POINT(1 1)},{point},E) • (Prev,{#},DW1)", {11, 1, 5, 12, 21}),
        ("({at:POINT(1 1)},{road},T) • (Anc,{point},I)", {5, 11, 21}),
    ],
)  # fmt: skip
def test_a_place_selects_what_lies_around_it(text: str, members: set[int]) -> None:
    assert set(resolved(text).peids().tolist()) == members


def test_a_point_of_degrees_is_projected_into_the_crs_of_the_version() -> None:
    geometries, lacking = projected_places(("POINT(9 45)",), UTM)
    assert lacking == ()
    assert shapely.get_coordinates(geometries)[0].tolist() == pytest.approx([5e5, 4982950.4], abs=1)
    around = replace(
        table_of(
            (metres, ("road",), shapely.Point(5e5 + metres, shapely.get_y(geometries[0])))
            for metres in (0, 199, 200, 201)
        ),
        srid=UTM,
    )
    assert resolved("({at:POINT(9 45)},{#},DW200.0001)", around).peids().tolist() == [0, 199, 200]


def test_a_place_that_the_crs_cannot_hold_is_reported_like_an_entity_that_is_not_there() -> None:
    # A quarter around the Earth from the zone's meridian the projection has no end.
    table = replace(grid(), srid=UTM)
    text = "POINT(99 0)"
    assert projected_places((text,), UTM)[1] == (text,)
    found = resolved(f"({{11,at:{text}}},{{point}},DW1)", table)
    assert (found.missing_refs, found.missing_places) == ((), (text,))
    assert found.stages[0].tolist() == [1, 12, 21]
    with pytest.raises(NoReferenceError) as caught:
        resolved(f"({{at:{text}}},{{point}},DW1)", table)
    assert str(caught.value) == f"no reference exists in world version 1: {text}"


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("POLYGON((0 0,1 1,1 0,0 1,0 0))", "Self-intersection[0.5 0.5]"),
        ("POLYGON((0 0,1 0,0 0,0 0))", "Too few points in geometry component[0 0]"),
    ],
)
def test_a_broken_place_is_refused_in_one_line(place: str, reason: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        resolved(f"({{at:{place}}},{{#}},I)")
    assert str(caught.value).startswith(f"stage 1: the place {place} is broken: {reason}; allowed:")


def test_a_heavy_place_is_related_apart_within_the_time_that_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limits of a pair hold for places as for entities; the place is the first of its pair."""
    monkeypatch.setattr(related_pairs, "RELATE_STEP_COST", 9)
    asked: list[tuple[str, float]] = []

    def relate(first: Any, second: Any, seconds: float) -> str:
        asked.append((shapely.get_type_id(first), seconds))
        return str(shapely.relate(first, second))

    limits = ResolutionLimits.within(1_000.0, None, relate)
    resolution = ExactResolver(grid()).resolve(
        parse_notation(f"({{at:{SQUARE}}},{{road}},C)"), limits
    )
    assert resolution.peids().tolist() == [5]
    [(kind, seconds)] = asked
    assert kind == POLYGON
    assert 0 < seconds < 1_000


def test_the_time_limit_is_looked_at_before_a_place_is_related() -> None:
    with pytest.raises(DeadlineError):
        ExactResolver(grid()).resolve(
            parse_notation(f"({{at:{SQUARE}}},{{#}},C)"), ResolutionLimits.within(0.0)
        )
