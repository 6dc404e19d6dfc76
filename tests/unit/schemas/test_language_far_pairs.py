"""What conditions give on far pairs, and how far they reach."""

from __future__ import annotations

import pytest

from schemas.language.condition_parser import parse_condition
from schemas.language.conditions import Condition, reach
from schemas.topology.relations import SHAPE_PAIRS, Shape, always_false_when_far, far_bits


def far_values(condition: Condition) -> dict[tuple[Shape, Shape], bool]:
    """For each (shape of the reference, shape of the entity), whether it holds for a far pair."""
    bits = far_bits(condition)
    return {pair: bool(bits >> place & 1) for place, pair in enumerate(SHAPE_PAIRS)}


@pytest.mark.parametrize(
    "text",
    ["C", "I", "T", "E", "DW500", "C AND B", "X OR O", "D AND DW5", "NOT D", "NOT (D OR T)",
     "Relate(T********)", "Relate(********F)", "D AND I"],
)  # fmt: skip
def test_conditions_that_no_far_pair_satisfies(text: str) -> None:
    condition = parse_condition(text)
    assert always_false_when_far(condition)
    assert not any(far_values(condition).values())


@pytest.mark.parametrize("text", ["D", "NOT DW100", "NOT C", "T OR D", "NOT (I AND DW5)"])
def test_conditions_that_every_far_pair_satisfies(text: str) -> None:
    condition = parse_condition(text)
    assert not always_false_when_far(condition)
    values = far_values(condition)
    assert len(values) == 16
    assert all(values.values())


@pytest.mark.parametrize(
    ("mask", "references", "entities"),
    [
        ("FF0******", {Shape.POINT}, set(Shape)),
        ("FF*FF0***", {Shape.LINE}, set(Shape)),
        ("FF*FFF2**", {Shape.POINT, Shape.CLOSED_LINE}, {Shape.AREA}),
        ("FF2FF11F2", {Shape.AREA}, {Shape.CLOSED_LINE}),
        ("FFTFFTTT2", {Shape.LINE, Shape.AREA}, {Shape.LINE, Shape.AREA}),
    ],
)
def test_exterior_cells_make_far_pairs_depend_on_the_shapes(
    mask: str, references: set[Shape], entities: set[Shape]
) -> None:
    condition = parse_condition(f"Relate({mask})")
    for (reference, entity), holds in far_values(condition).items():
        assert holds == (reference in references and entity in entities)


def test_reach_is_the_largest_distance_wherever_it_stands() -> None:
    assert reach(parse_condition("C AND B")) == 0.0
    assert reach(parse_condition("DW5 OR NOT (T AND NOT DW20.5) AND DW10")) == 20.5
