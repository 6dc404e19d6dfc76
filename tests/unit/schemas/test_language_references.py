"""References by key, by name and by place: what is read, what is printed, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.errors import DescriptorError, NotationError
from schemas.language.descriptor_json import parse_descriptor
from schemas.language.explain import explain
from schemas.language.limits import MAX_DESCRIPTOR_BYTES, MAX_PLACE_VERTICES, MAX_REFS
from schemas.language.neighborhood import Neighborhood, neighborhood_hash
from schemas.language.notation import notation, parse_notation
from schemas.language.places import place_of_text, place_words

SQUARE = "POLYGON((7 43,8 43,8 44,7 44,7 43))"


def descriptor(*refs: Any) -> Neighborhood:
    return parse_descriptor({"refs": list(refs), "stages": [{"cats": ["#"], "cond": "T"}]})


def test_both_notations_read_the_same_references() -> None:
    typed = parse_notation(
        '({4711, key:way/123#2, name:"Monte-Carlo", at: polygon ((7 43, 8 43, 8 44, 7 44, 7 43))}'
        ",{#},T)"
    )
    square = {"type": "Polygon", "coordinates": [[[7, 43], [8, 43], [8, 44], [7, 44], [7, 43]]]}
    read = descriptor({"at": square}, {"name": "Monte-Carlo"}, {"key": "way/123#2"}, "4711")
    assert typed == read
    assert (typed.refs, typed.keys, typed.names, typed.places) == (
        (4711,), ("way/123#2",), ("Monte-Carlo",), (SQUARE,),
    )  # fmt: skip


def test_the_notation_prints_references_in_one_way() -> None:
    text = f'({{4711,key:way/123#2,key:"a, b",name:"Monte-Carlo",at:{SQUARE}}},{{#}},T)'
    assert notation(parse_notation(text)) == text
    assert (
        notation(parse_notation("({name: Monte-Carlo },{#},T)")) == '({name:"Monte-Carlo"},{#},T)'
    )


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("POINT(7.42 43.74)", "POINT(7.42 43.74)"),
        (" point z ( 1e-7  -0.0 12.5 ) ", "POINT(0.0000001 0)"),
        ("POINT(+07.4200 .5)", "POINT(7.42 0.5)"),
        ("MultiPoint((1 2), 3 4)", "MULTIPOINT(1 2,3 4)"),
        ("LINESTRING (0 0, 1 1)", "LINESTRING(0 0,1 1)"),
        ("MULTILINESTRING((0 0,1 1),(2 2,3 3))", "MULTILINESTRING((0 0,1 1),(2 2,3 3))"),
        ("MULTIPOLYGON(((0 0,1 0,1 1,0 0)))", "MULTIPOLYGON(((0 0,1 0,1 1,0 0)))"),
    ],
)
def test_a_place_has_one_canonical_form(written: str, canonical: str) -> None:
    assert place_of_text(written).text == canonical
    assert place_of_text(canonical).text == canonical


def test_a_place_counts_in_the_hash_and_its_way_of_writing_does_not() -> None:
    first = descriptor({"at": "POINT(7.42 43.74)"})
    same = descriptor({"at": {"type": "Point", "coordinates": [7.42, 43.74, 60]}})
    other = descriptor({"at": "POINT(7.42 43.75)"})
    assert neighborhood_hash(first) == neighborhood_hash(same)
    assert neighborhood_hash(first) != neighborhood_hash(other)
    assert neighborhood_hash(descriptor({"key": "a"})) != neighborhood_hash(
        descriptor({"name": "a"})
    )


POINT = {"type": "Point", "coordinates": [1, 2]}
WRONG: list[tuple[Any, str]] = [
    ({}, "stage 1: refs has an object with no key; allowed: a non-empty list of peids"),
    ({"key": "a", "name": "b"}, "stage 1: refs has an object with 'key', 'name'"),
    ({"key": 5}, "stage 1: the key of a reference is 5; allowed: a text"),
    ({"key": " "}, "stage 1: a key in refs is empty; allowed: the key of an entity"),
    ({"key": "a\nb"}, "stage 1: a key in refs 'a\\nb' has a character that cannot be printed"),
    ({"name": " "}, "stage 1: a name in refs is empty; allowed: 1 to 1024 characters"),
    ({"name": "n" * 1025}, "stage 1: a name in refs has 1025 characters"),
    ({"at": 5}, "stage 1: at is 5; allowed: WKT as a string, or a GeoJSON geometry"),
    ({"at": "POINT(7"}, "stage 1: at character 8 of at: expected a number of degrees"),
    ({"at": "POINT(7 43) x"}, "stage 1: at character 12 of at: expected the end of the WKT"),
    ({"at": "POINT(7 43"}, "stage 1: at character 11 of at: expected ')'"),
    ({"at": "CIRCLE(7 43)"}, "stage 1: at character 1 of at: expected a place such as POINT"),
    ({"at": "POINT(nan 1)"}, "stage 1: at character 7 of at: expected a number of degrees"),
    ({"at": "POINT EMPTY"}, "stage 1: a place is empty; allowed: POINT, MULTIPOINT"),
    ({"at": "GEOMETRYCOLLECTION(POINT(1 2))"}, "stage 1: a place is a geometry collection"),
    ({"at": "POINT(43 95)"}, "stage 1: a place has the position 43 95; allowed: longitude -180 .."),
    ({"at": "POINT(43.7 97.4)"}, "latitude -90 .. 90; longitude comes first"),
    ({"at": "POINT(1e999 2)"}, "the position a number that is too large 2"),
    ({"at": "LINESTRING(1 1,1 1)"}, "stage 1: a place has a line without two different positions"),
    ({"at": "POLYGON((0 0,1 0,1 1))"}, "stage 1: a place has a ring that does not end where it"),
    ({"at": {"type": "Feature"}}, "stage 1: a place is a Feature; allowed: a GeoJSON geometry"),
    ({"at": {"type": "Circle"}}, "stage 1: a place is no GeoJSON geometry; allowed: an object"),
    ({"at": {"type": "GeometryCollection"}}, "stage 1: a place is a geometry collection"),
    ({"at": {"type": "Point"}}, 'stage 1: a place has "coordinates" that are no list'),
    ({"at": {"type": "Point", "coordinates": []}}, "stage 1: a place is empty"),
    ({"at": {"type": "Point", "coordinates": [True, 2]}}, "stage 1: a place has a position that"),
    ({"at": {"type": "Point", "coordinates": [10**400, 2]}}, "a number that is too large 2"),
    ({"at": {"type": "LineString", "coordinates": [1, 2]}}, 'has "coordinates" that are no list'),
    ({"at": POINT | {"crs": 1}}, "stage 1: a place has the unknown key 'crs'; allowed: type,"),
]


@pytest.mark.parametrize(("reference", "message"), WRONG, ids=[text for _, text in WRONG])
def test_a_wrong_reference_is_one_clear_error(reference: Any, message: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        descriptor(4711, reference)
    assert message in str(caught.value)
    assert caught.value.stage == 1
    assert "\n" not in str(caught.value)


def test_a_place_in_the_notation_says_where_it_is_wrong() -> None:
    with pytest.raises(NotationError) as caught:
        parse_notation("({at:POINT(7.42 43.74},{road/#},DW200)")
    assert str(caught.value).startswith("stage 1: at character 22: expected ')'")


def test_limits_hold_for_places_and_for_all_references_together() -> None:
    corners = ",".join(f"0 {number}e-9" for number in range(MAX_PLACE_VERTICES + 1))
    with pytest.raises(
        DescriptorError, match=f"10001 vertices; allowed: at most {MAX_PLACE_VERTICES}"
    ):
        place_of_text(f"LINESTRING({corners})")
    with pytest.raises(DescriptorError, match=f"4097 references; allowed: at most {MAX_REFS}"):
        descriptor(*range(MAX_REFS), {"key": "one more"})


def test_a_place_whose_canonical_form_is_too_long_is_refused() -> None:
    positions = ",".join(f"[1e-300,{number}e-9]" for number in range(1000))
    text = (
        f'{{"refs":[{{"at":{{"type":"LineString","coordinates":[{positions}]}}}}],'
        '"stages":[{"cats":["#"],"cond":"T"}]}'
    )
    assert len(text) < MAX_DESCRIPTOR_BYTES
    with pytest.raises(DescriptorError, match=f"bytes; allowed: at most {MAX_DESCRIPTOR_BYTES}"):
        parse_descriptor(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("({at:POINT(7.42 43.74)},{road/#},DW200)",
         "entities in road or below that are at most 200 m from POINT(7.42 43.74)."),
        ("({key:way/1},{#},T)", "entities of any category that touch the entity with key way/1."),
        ("({name:Larvotto},{#},T)",
         'entities of any category that touch the entity named "Larvotto".'),
        ("({1,key:way/1},{#},T)",
         "entities of any category that touch one of the entities 1 and key way/1."),
        ("({1,at:POINT(1 2)},{#},T)",
         "entities of any category that touch one of entity 1 and POINT(1 2)."),
    ],
)  # fmt: skip
def test_references_are_explained_in_words(text: str, words: str) -> None:
    assert explain(parse_notation(text))[0] == f"Stage 1: {words}"


def test_a_long_place_is_explained_without_its_positions() -> None:
    corners = ",".join(f"{number} 1" for number in range(30))
    assert place_words(f"LINESTRING({corners})") == "LINESTRING(… 30 vertices)"
