"""Keys and names become peids of a world version; unknown ones are no errors, doubtful ones are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from shapely.geometry import Point

from schemas.errors import DescriptorError, NoReferenceError
from schemas.language.neighborhood import References, neighborhood_hash
from schemas.language.notation import parse_notation
from spatial_udfs.entity_keys import bound_to
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver, resolve_named
from tests.strategies.worlds import table_of

NAMES = ["Larvotto", "Twin", "Twin", None, *["Common"] * 9]


def world() -> EntityTable:
    """Thirteen points in a row, with keys and names."""
    table = table_of((10 + at, ("zone/a",), Point(at, 0)) for at in range(len(NAMES)))
    names = np.array(NAMES, dtype=object)
    return replace(table, names=names, keys=pa.array([f"k/{at}" for at in range(len(NAMES))]))


def test_keys_and_names_become_peids_and_have_the_hash_of_peids() -> None:
    bound, unknown = bound_to(parse_notation("({12,key:k/3,key:k/2,name:Larvotto},{#},T)"), world())
    assert set(bound.refs) == {10, 12, 13}
    assert (bound.keys, bound.names, unknown) == ((), (), References())
    by_peid = parse_notation("({10,12,13},{#},T)")
    assert neighborhood_hash(bound) == neighborhood_hash(by_peid)


def test_several_names_are_looked_up_at_once() -> None:
    bound, unknown = bound_to(
        parse_notation("({name:Larvotto,name:larvotto,name:x},{#},T)"), world()
    )
    assert bound.refs == (10,)
    assert unknown.names == ("larvotto", "x")


def test_unknown_keys_and_names_are_reported_and_left_out() -> None:
    table = world()
    found = resolve_named(
        ExactResolver(table), table,
        parse_notation("({10,99,key:k/99,name:Nobody,at:POINT(0 0)},{#},DW1)"),
    )  # fmt: skip
    assert found.missing == (99, "key:k/99", 'name:"Nobody"')
    assert found.resolution.stages[0].tolist() == [11]


def test_a_peid_is_no_key_where_entities_have_keys() -> None:
    bound, unknown = bound_to(parse_notation("({12,key:10},{#},T)"), world())
    assert (bound.refs, unknown.keys) == ((12,), ("10",))


def test_nothing_that_exists_is_an_error_that_names_what_was_written() -> None:
    table = world()
    written = parse_notation("({5,key:k/99,name:Nobody},{#},T)")
    with pytest.raises(NoReferenceError) as caught:
        resolve_named(ExactResolver(table), table, written)
    assert str(caught.value) == (
        'no reference exists in world version 1: 5, key:k/99, name:"Nobody" '
        "(a name counts exactly as it is written; 'spaps find' searches)"
    )


@pytest.mark.parametrize("others", ["", ",name:Larvotto"])
def test_a_name_of_several_entities_is_an_error_that_lists_them(others: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        bound_to(parse_notation(f"({{name:Twin{others}}},{{#}},T)"), world())
    assert str(caught.value) == (
        'stage 1: 2 entities have the name "Twin": 11 (key k/1, zone/a), 12 (key k/2, zone/a); '
        "allowed: a name of one entity, or the peid or the key of one of these"
    )


def test_a_very_common_name_gives_a_short_error() -> None:
    with pytest.raises(DescriptorError, match=r"9 entities .*18 \(key k/8, zone/a\), 4 more; all"):
        bound_to(parse_notation("({name:Common},{#},T)"), world())


def test_a_resolver_refuses_names_that_nobody_replaced() -> None:
    with pytest.raises(ValueError, match="replaced by peids before"):
        ExactResolver(world()).resolve(parse_notation("({name:Larvotto},{#},T)"))
