"""Peids out of keys: written down here as numbers, because they must never change."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.entity import is_hashed, key_fault, number_of_key, peid_of_key
from schemas.language.limits import MAX_PEID


@pytest.mark.parametrize(
    ("key", "peid"),
    [
        ("0", 0),
        ("4711", 4711),
        (str(2**63 - 1), 2**63 - 1),
        ("way/123#2", 7818789351363151254),
        ("a", 2340832890917691671),
        ("Straße 7", 8785928386476197010),
    ],
)
def test_the_peid_of_a_key_is_the_same_for_ever(key: str, peid: int) -> None:
    assert peid_of_key(key) == peid


@pytest.mark.parametrize(
    "key", ["007", "-1", "+1", "1.0", "", str(2**63), "9" * 30, "\u0667", "1\n"]
)
def test_what_is_not_the_shortest_notation_of_a_peid_is_hashed(key: str) -> None:
    assert number_of_key(key) is None
    assert is_hashed(key, peid_of_key(key))
    assert not is_hashed(key, peid_of_key(key) ^ 1)


def test_a_number_is_not_hashed() -> None:
    assert not is_hashed("7", 7)


@given(st.text(min_size=1).filter(lambda text: text.isprintable()))
def test_every_key_has_the_first_63_bits_of_its_digest(key: str) -> None:
    bits = "".join(f"{byte:08b}" for byte in hashlib.blake2b(key.encode(), digest_size=8).digest())
    expected = int(key) if number_of_key(key) is not None else int(bits[:63], 2)
    assert peid_of_key(key) == expected <= MAX_PEID


@pytest.mark.parametrize("key", ["", "a\nb", "a\x00", "\ud800", "x" * 1025, "\u202e"])
def test_keys_that_cannot_be_used(key: str) -> None:
    fault = key_fault(key)
    assert fault
    assert "\n" not in fault


@pytest.mark.parametrize("key", ["a", "way/1#2", "Ä 7", "x" * 1024, "東", "'\"<&>"])
def test_keys_that_can_be_used(key: str) -> None:
    assert key_fault(key) is None
