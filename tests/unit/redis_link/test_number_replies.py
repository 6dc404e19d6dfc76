"""Answers to SMEMBERS as numbers: in whatever pieces they come, and only if they are numbers."""

from __future__ import annotations

import itertools
import socket
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Connection, exceptions

from redis_link.sets import number_replies
from redis_link.sets.number_replies import NumberReplies
from schemas.errors import GenerationError

NUMBERS = st.one_of(st.integers(0, 40), st.integers(0, 2**17), st.integers(0, 2**63 - 1))
SETS = st.lists(st.lists(NUMBERS, max_size=6), min_size=1, max_size=8)


class PiecewiseSocket:
    """Gives bytes in pieces of the given lengths; select finds it through a real socket."""

    def __init__(self, data: bytes, cuts: list[int]) -> None:
        bounds = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
        self._pieces = [data[a:b] for a, b in itertools.pairwise(bounds)]
        self._real, self._other = socket.socketpair()

    def fileno(self) -> int:
        """Never ready: each piece is looked at by itself."""
        return self._real.fileno()

    def recv(self, _size: int) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def close(self) -> None:
        self._real.close()
        self._other.close()


def answered(*sets: list[int] | list[bytes]) -> bytes:
    """As Redis writes it."""
    words = [[each if isinstance(each, bytes) else str(each).encode() for each in one]
             for one in sets]  # fmt: skip
    return b"".join(
        b"*%d\r\n" % len(one) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in one)
        for one in words
    )


def replies(data: bytes, cuts: list[int]) -> tuple[NumberReplies, PiecewiseSocket]:
    sock = PiecewiseSocket(data, cuts)
    return NumberReplies(SimpleNamespace(_sock=sock, _parser=Connection()._parser)), sock


@given(SETS, st.lists(st.integers(0, 500), max_size=12), st.data())
def test_what_was_sent_is_read_however_it_is_cut(
    sets: list[list[int]], cuts: list[int], data: st.DataObject
) -> None:
    reader, sock = replies(answered(*sets), cuts)
    left = sets
    while left:
        count = data.draw(st.integers(1, len(left)))
        sizes, numbers = reader.read(count)
        assert sizes.tolist() == [len(one) for one in left[:count]]
        assert numbers.tolist() == [number for one in left[:count] for number in one]
        left = left[count:]
    sock.close()


@pytest.mark.parametrize(
    "member", [b"x", b"", b"-1", b"1 ", b"*2", b"$1", b"1\r\n2", b"1\n2", b"12345678901234567890"]
)
@pytest.mark.parametrize("cuts", [[], list(range(200))])
def test_what_is_no_number_is_said(member: bytes, cuts: list[int]) -> None:
    reader, sock = replies(answered([b"1", member], [b"2"]), cuts)
    with pytest.raises((GenerationError, exceptions.ResponseError)):
        reader.read(2)
    sock.close()


def test_errors_of_redis_are_those_of_the_client_library() -> None:
    reader, sock = replies(answered([1]) + b"-MOVED 77 127.0.0.1:7001\r\n", [])
    with pytest.raises(exceptions.MovedError):
        reader.read(2)
    sock.close()


def test_an_end_in_the_middle_is_said() -> None:
    reader, sock = replies(answered([1, 2])[:-4], [])
    with pytest.raises(exceptions.ConnectionError, match="closed"):
        reader.read(1)
    sock.close()


def test_large_answers_come_in_several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(number_replies, "ENOUGH_BYTES", 4_096)
    numbers = np.arange(10**9, 10**9 + 5_000).tolist()
    near, far = socket.socketpair()
    near.settimeout(5)
    far.sendall(answered(numbers, [], numbers[:3]))
    reader = NumberReplies(SimpleNamespace(_sock=near, _parser=None))
    sizes, found = reader.read(3)
    assert sizes.tolist() == [5_000, 0, 3]
    assert found.tolist() == [*numbers, *numbers[:3]]
    near.close()
    far.close()
