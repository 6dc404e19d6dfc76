"""Conditions and neighborhoods as the readers make them, of every legal kind.

``neighborhoods()`` draws objects that are equal to what reading their own text gives, so any
test can print them, send them and compare.
"""

from __future__ import annotations

from typing import Any, TypeVar

from hypothesis import strategies as st

from schemas.entity import key_fault
from schemas.language.categories import checked_pattern
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
from schemas.language.limits import MAX_DISTANCE_METRES, MAX_PEID
from schemas.language.neighborhood import Neighborhood, References, RefStages, Stage
from schemas.language.places import place_of_geometry
from schemas.topology.relations import LONG_NAMES

Value = TypeVar("Value")

# Letters that the notation could misread, and some that people really use.
_AWKWARD = ",{}()\";•'\\ \t\n\u00a0\u200b$:!&|∧ü漢😀"
_LEVELS = st.one_of(
    st.sampled_from(["road", "minor", "transport", "", "+", "$SYS", "Prev", "visible", "a b"]),
    st.text(st.sampled_from("abc" + _AWKWARD), max_size=4),
    st.characters(exclude_categories=["Cs"], exclude_characters="#+/\0"),
)


def texts() -> st.SearchStrategy[str]:
    """Text that may stand in a descriptor: everything but U+0000 and half surrogates."""
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


def distances() -> st.SearchStrategy[float]:
    """Metres as people write them, and every other number in the range."""
    return st.one_of(
        st.sampled_from([0.0, 0.5, 5.0, 10.0, 20.0, 500.0]),
        st.integers(0, 2000).map(float),
        st.floats(0.0, MAX_DISTANCE_METRES),
    ).map(abs)  # no minus zero


def relations() -> st.SearchStrategy[Leaf]:
    """One relation of the contract's table."""
    return st.one_of(
        st.sampled_from(list(LONG_NAMES)).map(Topological),
        distances().map(WithinDistance),
        st.integers(0, 6**9 - 1).map(lambda number: Relate(_mask(number))),
    )


def _mask(number: int) -> str:
    """The number in base 6; one draw for a mask is much quicker than nine."""
    return "".join("*TF012"[number // 6**place % 6] for place in range(9))


def conditions(max_leaves: int = 8) -> st.SearchStrategy[Condition]:
    """Trees in the parser's normal form."""
    parts = st.lists(relations(), min_size=1, max_size=max_leaves)
    return st.builds(_tree, parts, st.lists(st.integers(0, 6), max_size=3 * max_leaves))


def _tree(parts: list[Condition], steps: list[int]) -> Condition:
    """Join the parts on a stack, as the steps say, until one is left."""
    stack = list(parts)
    for step in steps:
        if step == 0:
            stack.append(Not(stack.pop()))
        elif step == 1:
            stack.insert(0, stack.pop())
        elif len(stack) > 1:
            taken = [stack.pop() for _ in range(min(len(stack), step // 2 + 1))]
            stack.append(joined(And if step % 2 else Or, taken))
    return stack[0] if len(stack) == 1 else joined(Or, stack)


def joined(kind: type[And | Or], operands: list[Condition]) -> Condition:
    """AND or OR of the operands, made flat as the parser does it."""
    flat: list[Condition] = []
    for operand in operands:
        flat.extend(operand.operands if isinstance(operand, kind) else [operand])
    return kind(tuple(flat))


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """A legal category pattern without the trailing slash that is ignored."""
    levels = draw(st.lists(_LEVELS, min_size=1, max_size=4))
    if draw(st.booleans()):
        levels.append("#")
    text = "/".join(levels).rstrip("/")
    return checked_pattern(text) if text else "#"


@st.composite
def neighborhoods(draw: st.DrawFn, max_stages: int = 4) -> Neighborhood:
    """A legal neighborhood with up to ``max_stages`` stages as typed, some of them repeated."""
    stages = [Stage(categories=draw(_pattern_sets()), condition=draw(conditions(max_leaves=5)))]
    number = 2
    for _ in range(draw(st.integers(0, max_stages - 1))):
        repeat = draw(st.integers(1, 3))
        stages.append(
            Stage(
                categories=draw(_pattern_sets()),
                condition=draw(conditions(max_leaves=5)),
                ref_stages=draw(_ref_stages(number)),
                repeat=repeat,
            )
        )
        number += repeat
    flags = st.lists(st.booleans(), min_size=number - 1, max_size=number - 1)
    visible = draw(st.one_of(st.just([True] * (number - 1)), flags.filter(any)))
    refs = draw(references())
    return Neighborhood(
        refs=refs.peids,
        stages=tuple(stages),
        visible=tuple(visible),
        name=draw(st.one_of(st.none(), texts())),
        keys=refs.keys,
        names=refs.names,
        places=refs.places,
    )


def references() -> st.SearchStrategy[References]:
    """At least one reference: mostly peids alone, else of all kinds."""
    peids = _each_once(st.integers(0, MAX_PEID), 1, 5).map(References)
    mixed = st.builds(
        References,
        _each_once(st.integers(0, MAX_PEID), 0, 2),
        _each_once(keys(), 0, 2),
        _each_once(names(), 0, 2),
        _each_once(places(), 0, 2),
    )
    return st.one_of(peids, mixed.filter(any))


def _each_once(
    values: st.SearchStrategy[Value], least: int, most: int
) -> st.SearchStrategy[tuple[Value, ...]]:
    return st.lists(values, min_size=least, max_size=most, unique=True).map(tuple)


def keys() -> st.SearchStrategy[str]:
    """Keys as sources give them, and others that the notation could misread."""
    awkward = st.text(st.sampled_from("ab1/#" + _AWKWARD), min_size=1, max_size=6)
    usable = awkward.map(str.strip).filter(lambda key: key_fault(key) is None)
    return st.one_of(st.sampled_from(["way/123#2", "007", "12", "R/1"]), usable)


def names() -> st.SearchStrategy[str]:
    """Names of entities."""
    return st.one_of(st.sampled_from(["Monte-Carlo", " a "]), texts().filter(str.strip))


def places() -> st.SearchStrategy[str]:
    """Places in canonical form, of every type."""
    degrees = st.one_of(st.integers(-90, 90), st.floats(-90, 90, allow_subnormal=False))
    position = st.tuples(degrees, degrees).map(list)
    line = st.lists(position, min_size=2, max_size=3, unique_by=lambda at: (at[0] + 0, at[1] + 0))
    ring = st.lists(position, min_size=3, max_size=4).map(lambda corners: [*corners, corners[0]])
    area = st.lists(ring, min_size=1, max_size=2)

    def several(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(parts, min_size=1, max_size=2)

    kinds = {
        "Point": position,
        "MultiPoint": several(position),
        "LineString": line,
        "MultiLineString": several(line),
        "Polygon": area,
        "MultiPolygon": several(area),
    }
    written = [
        st.fixed_dictionaries({"type": st.just(kind), "coordinates": coordinates})
        for kind, coordinates in kinds.items()
    ]
    return st.one_of(written).map(lambda geometry: place_of_geometry(geometry).text)


def _pattern_sets() -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(patterns(), min_size=1, max_size=3, unique=True).map(tuple)


def _ref_stages(number: int) -> st.SearchStrategy[RefStages]:
    explicit = st.sets(st.integers(1, number - 1), min_size=1).map(lambda s: tuple(sorted(s)))
    return st.one_of(st.sampled_from(["Prev", "Anc"]), explicit)
