"""Names of user properties that are nearly ours."""

from __future__ import annotations

import pytest

from schemas.mqtt_names import MOST_CHARACTERS, OUR_NAMES, name_meant, name_warnings


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("neighbourhood", "neighborhood"),
        ("Neighborhood", "neighborhood"),
        ("NEIGHBOURHOOD", "neighborhood"),
        ("neighborhoods", "neighborhood"),
        ("neigborhood", "neighborhood"),
        ("nieghborhood", "neighborhood"),
        ("neighborhoof", "neighborhood"),
        ("neighbor-hood", "neighborhood"),
        ("peId", "peid"),
        ("pe_id", "peid"),
        ("PEID", "peid"),
        ("ns-id", "nsid"),
        ("nsId", "nsid"),
    ],
)
def test_a_name_that_is_nearly_ours(name: str, meant: str) -> None:
    assert name_meant(name) == meant


@pytest.mark.parametrize(
    "name",
    [*OUR_NAMES, "", "pid", "paid", "eid", "nid", "unit", "neighbor", "neighborly", "hood",
     "negihbourhood", "neighborhood" * 2, "n" * 10_000],
)  # fmt: skip
def test_ours_and_other_words(name: str) -> None:
    assert name_meant(name) is None


def test_a_few_names_are_named_each_once() -> None:
    names = ["unit", "nsId", "nsId", "peId", "neighbourhood", "NSID", "peid"]
    assert name_warnings(names) == [
        "the user property 'nsId' is ignored; did you mean 'nsid'?",
        "the user property 'peId' is ignored; did you mean 'peid'?",
        "the user property 'neighbourhood' is ignored; did you mean 'neighborhood'?",
    ]
    assert len("neighbour-hoods") <= MOST_CHARACTERS
