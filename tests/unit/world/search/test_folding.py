"""Folding: case, accents and punctuation do not count, in one text and in a column of texts."""

from __future__ import annotations

import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from world.search.searched_world import fold, folded_column

TEXTS = st.text(max_size=12)


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("Monte-Carlo", "monte carlo"),
        ("Avenue de l\N{RIGHT SINGLE QUOTATION MARK}Hermitage", "AVENUE DE L'HERMITAGE"),
        ("Straße", "strasse"),
        ("Place d'Armes / Été", "place d armes ete"),
        ("ΟΔΟΣ Ερμού", "οδος ερμου"),
        ("İzmir", "izmir"),
        ("ﬁlm ① ½", "film 1 1\N{FRACTION SLASH}2"),
        ("Łódź\n\tA", "lodz a"),
        ("København, Đakovo", "kobenhavn dakovo"),
        ("Æbelø", "aebelo"),
        ("Diyarbak\N{LATIN SMALL LETTER DOTLESS I}r", "diyarbakir"),
        ("way/123#2", "WAY 123 2"),
        ("  C++  ", "c++"),
    ],
)
def test_texts_that_are_the_same_to_a_person(written: str, typed: str) -> None:
    assert fold(written) == fold(typed)


@pytest.mark.parametrize(("one", "other"), [("Monte", "Mont"), ("ab", "a b"), ("1", "2")])
def test_texts_that_are_not(one: str, other: str) -> None:
    assert fold(one) != fold(other)


@given(TEXTS)
def test_folding_again_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(TEXTS)
def test_the_way_a_text_is_composed_does_not_count(text: str) -> None:
    assert fold(unicodedata.normalize("NFD", text)) == fold(text)
    assert fold(unicodedata.normalize("NFC", text)) == fold(text)


@given(TEXTS)
def test_words_are_separated_by_one_space(text: str) -> None:
    assert fold(text).split() == fold(text).split(" ") or not fold(text)


@given(st.lists(st.none() | TEXTS | st.text("aB, -é", max_size=6), max_size=20), st.integers(0, 3))
def test_a_column_is_folded_text_by_text(texts: list[str | None], cut: int) -> None:
    column = pa.array(texts, pa.string()).slice(cut)
    expected = ["" if text is None else fold(text) for text in texts[cut:]]
    assert folded_column(column).to_pylist() == expected
    assert folded_column(pa.chunked_array([column, column])).to_pylist() == expected * 2
