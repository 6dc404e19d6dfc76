"""Category patterns against a category tree."""

from __future__ import annotations

import pytest

from schemas.errors import DescriptorError
from schemas.language.categories import CategoryTree, checked_pattern, likely_pattern, matching
from schemas.language.limits import MAX_CATEGORY_LEVELS

CATEGORIES = (
    "road",
    "road/major",
    "road/major/motorway",
    "road/minor",
    "roads",
    "shop/bakery",
    "$SYS/x",
    "shop/a b,c",
    "/lead",
    "a//b",
    "shop/*",
    "SHOP/bakery",
)


@pytest.mark.parametrize(
    ("pattern", "selected"),
    [
        ("road", {"road"}),
        ("road/", {"road"}),
        ("road/#", {"road", "road/major", "road/major/motorway", "road/minor"}),
        ("road/#/", {"road", "road/major", "road/major/motorway", "road/minor"}),
        ("road/+", {"road/major", "road/minor"}),
        ("road/+/", {"road/major", "road/minor"}),
        ("road/+/#", {"road/major", "road/minor", "road/major/motorway"}),
        ("+", {"road", "roads"}),
        ("+/major", {"road/major"}),
        ("+/+/motorway", {"road/major/motorway"}),
        ("#", set(CATEGORIES)),
        ("$SYS/#", {"$SYS/x"}),
        ("+/x", {"$SYS/x"}),
        ("shop/a b,c", {"shop/a b,c"}),
        ("/lead", {"/lead"}),
        ("+/lead", {"/lead"}),
        ("a/+/b", {"a//b"}),
        ("a//b", {"a//b"}),
        ("a/b", set()),
        ("shop/*", {"shop/*"}),
        ("shop/bakery", {"shop/bakery"}),
        ("road/major/motorway/link", set()),
        ("road/major/motorway/#", {"road/major/motorway"}),
    ],
)
def test_what_a_pattern_selects(pattern: str, selected: set[str]) -> None:
    assert matching([pattern], CATEGORIES) == selected


def test_several_patterns_select_what_any_of_them_does_once_each() -> None:
    tree = CategoryTree(CATEGORIES)
    assert tree.codes(["road/major", "road/#", "shop/bakery"]) == (0, 1, 2, 3, 5)
    assert tree.codes([]) == ()
    assert CategoryTree([]).codes(["#"]) == ()


def test_a_parent_that_is_no_category_itself_is_not_selected() -> None:
    assert matching(["shop", "shop/#"], ["shop/bakery"]) == {"shop/bakery"}


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        ("", "levels separated by '/'"),
        ("/", "levels separated by '/'"),
        ("#/a", "'#' alone in the last level"),
        ("a/#/b", "'#' alone in the last level"),
        ("a#", "'#' alone in the last level"),
        ("a/#b", "'#' alone in the last level"),
        ("##", "'#' alone in the last level"),
        ("a+/b", "'+' alone in its level"),
        ("a/+b", "'+' alone in its level"),
        ("++", "'+' alone in its level"),
        ("/".join("a" * (MAX_CATEGORY_LEVELS + 1)), "at most 32"),
    ],
)
def test_a_wrong_pattern_is_an_error_that_says_what_is_allowed(pattern: str, allowed: str) -> None:
    with pytest.raises(DescriptorError, match=r"^stage 7: .*; allowed: ") as caught:
        checked_pattern(pattern, 7)
    assert allowed in str(caught.value)
    with pytest.raises(DescriptorError):
        matching([pattern], CATEGORIES)


def test_only_one_trailing_slash_is_ignored() -> None:
    assert checked_pattern("road/") == "road"
    assert checked_pattern("road//") == "road/"


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("raod/#", "road/#"),
        ("Road/Major", "road/major"),
        ("major", "road/major"),
        ("major/#", "road/major/#"),
        ("motorway", "road/major/motorway"),
        ("moterway", "road/major/motorway"),
        ("/road", "road"),
        ("shop", "shop/#"),
        ("zone/#", None),
        ("#", None),
        ("+/+/+/+", None),
    ],
)
def test_the_pattern_that_was_probably_meant(pattern: str, meant: str | None) -> None:
    assert likely_pattern(pattern, CATEGORIES) == meant


def test_a_proposed_pattern_selects_something() -> None:
    for pattern in ("rod/#", "majr", "shopp/bakery", "minor/#"):
        meant = likely_pattern(pattern, CATEGORIES)
        assert meant is not None
        assert matching([meant], CATEGORIES)
