"""Answers to SMEMBERS become numbers, however they are cut, and only if they are numbers."""

from __future__ import annotations

import itertools

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_link.sets.set_reader import member_numbers
from schemas.errors import GenerationError

NUMBERS = st.one_of(st.integers(0, 40), st.integers(0, 2**17), st.integers(0, 2**63 - 1))
SETS = st.lists(st.lists(NUMBERS, max_size=6), min_size=1, max_size=8)


def answered(sets: list[list[int]]) -> bytes:
    """As Redis writes it."""
    words = [[str(each).encode() for each in one] for one in sets]
    return b"".join(
        b"*%d\r\n" % len(one) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in one)
        for one in words
    )


@given(SETS, st.lists(st.integers(0, 500), max_size=12))
def test_what_was_sent_is_read_however_it_is_cut(sets: list[list[int]], cuts: list[int]) -> None:
    data, reader, replies = answered(sets), hiredis.Reader(), []
    bounds = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(bounds):
        reader.feed(data[start:end])
        while (reply := reader.gets()) is not False:
            replies.append(reply)
    sizes, numbers = member_numbers(replies)
    assert sizes.tolist() == [len(one) for one in sets]
    assert numbers.tolist() == [number for one in sets for number in one]


@pytest.mark.parametrize(
    "member",
    [b"x", b"", b"-1", b"1 ", b"*2", b"$1", b"1\r\n2", b"1\n2", b"1_0", b"12345678901234567890"],
)
def test_what_is_no_number_is_said(member: bytes) -> None:
    assert member_numbers([[b"1", b"10"], [b"2"]])[1].tolist() == [1, 10, 2]
    with pytest.raises(GenerationError, match="no number"):
        member_numbers([[b"1", member], [b"2"]])


def test_nothing_has_no_members() -> None:
    for replies in ([], [[]], [[], []]):
        sizes, numbers = member_numbers(replies)
        assert sizes.tolist() == [0] * len(replies)
        assert numbers.tolist() == []
