"""Answers to SMEMBERS as arrays of numbers, without an object for each member.

redis-py makes a Python object of every member, which costs more than Redis needs to send it.
Here the bytes are taken off the socket of a connection of redis-py: lines ``*N``, and N times
``$length`` and the number. What fits into that picture and is no number is an error, and so is
what does not fit.
"""

from __future__ import annotations

import select
import ssl
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from redis import exceptions

from redis_link.sets.tally import Int64s
from schemas.errors import GenerationError

# Enough at once that the steps below cost little for each number.
ENOUGH_BYTES: Final = 64 * 1024
LONGEST_NUMBER: Final = 19

_ARRAY, _LENGTH, _ERROR = b"*$-"
_NEWLINE, _RETURN, _ZERO = b"\n\r0"
_NO_NUMBER: Final = "a membership set holds something that is no number"


class NumberReplies:
    """The answers that come on one connection; all commands sent on it must be SMEMBERS."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._rest = b""
        self._sizes = np.empty(0, np.int64)
        self._numbers = np.empty(0, np.int64)

    def read(self, count: int) -> tuple[Int64s, Int64s]:
        """The sizes of the next ``count`` sets, and all their members one after the other."""
        sizes, numbers = [self._sizes], [self._numbers]
        have, members = len(self._sizes), len(self._numbers)
        wanted = int(self._sizes[:count].sum())
        while have < count or members < wanted:
            more_sizes, more_numbers = self._take()
            wanted += int(more_sizes[: max(count - have, 0)].sum())
            have += len(more_sizes)
            members += len(more_numbers)
            sizes.append(more_sizes)
            numbers.append(more_numbers)
        all_sizes, all_numbers = np.concatenate(sizes), np.concatenate(numbers)
        self._sizes, self._numbers = all_sizes[count:], all_numbers[wanted:]
        return all_sizes[:count], all_numbers[:wanted]

    def _take(self) -> tuple[Int64s, Int64s]:
        """Whole lines off the socket, as sizes and numbers."""
        data = self._rest + self._receive()
        complete = data.rfind(b"\n") + 1
        # A length and its number are looked at together.
        start = data.rfind(b"\n", 0, max(complete - 1, 0)) + 1
        if complete and data[start] == _LENGTH:
            complete = start
        self._rest = data[complete:]
        return self._parsed(np.frombuffer(data, np.uint8, complete))

    def _receive(self) -> bytes:
        """What has come, as much of it as makes a good piece; waits for the first bytes."""
        sock = self._connection._sock  # noqa: SLF001 - redis-py has no way to read undecoded
        if sock is None:
            raise exceptions.ConnectionError("the connection was closed")
        pieces: list[bytes] = []
        size = 0
        try:
            while not pieces or (size < ENOUGH_BYTES and _has_more(sock)):
                piece = sock.recv(ENOUGH_BYTES)
                if not piece:
                    raise exceptions.ConnectionError("Redis closed the connection")
                pieces.append(piece)
                size += len(piece)
        except TimeoutError as error:
            raise exceptions.TimeoutError("no answer in time") from error
        except OSError as error:
            raise exceptions.ConnectionError(str(error)) from error
        return b"".join(pieces)

    def _parsed(self, data: NDArray[np.uint8]) -> tuple[Int64s, Int64s]:
        ends = np.flatnonzero(data == _NEWLINE)
        starts = np.empty_like(ends)
        starts[:1] = 0
        starts[1:] = ends[:-1] + 1
        kinds = data[starts]
        failed = np.flatnonzero(kinds == _ERROR)
        if len(failed):
            line = data[starts[failed[0]] + 1 : ends[failed[0]]].tobytes().rstrip()
            raise self._connection._parser.parse_error(line.decode(errors="replace"))  # noqa: SLF001
        arrays = np.flatnonzero(kinds == _ARRAY)
        lengths = np.flatnonzero(kinds == _LENGTH)
        in_pairs = len(arrays) + 2 * len(lengths) == len(ends)
        if not in_pairs or not np.all(data[ends - 1] == _RETURN):
            raise GenerationError(_NO_NUMBER)
        values = lengths + 1
        sizes = _as_numbers(data, starts[arrays] + 1, ends[arrays] - 1)
        return sizes, _as_numbers(data, starts[values], ends[values] - 1)


def _has_more(sock: Any) -> bool:
    if isinstance(sock, ssl.SSLSocket) and sock.pending():
        return True
    return bool(select.select([sock], [], [], 0)[0])


def _as_numbers(data: NDArray[np.uint8], starts: Int64s, ends: Int64s) -> Int64s:
    """The decimal numbers between these places, those of one length at a time."""
    numbers = np.empty(len(starts), np.int64)
    lengths = ends - starts
    for length in np.flatnonzero(np.bincount(lengths)).tolist():
        if not 0 < length <= LONGEST_NUMBER:
            raise GenerationError(_NO_NUMBER)
        chosen = np.flatnonzero(lengths == length)
        places = starts[chosen]
        found = np.zeros(len(chosen), np.int64)
        for _ in range(length):
            digits = data.take(places)
            digits -= np.uint8(_ZERO)
            if digits.max(initial=0) > 9:  # smaller bytes than a digit wrap around
                raise GenerationError(_NO_NUMBER)
            found *= 10
            found += digits
            places += 1
        numbers[chosen] = found
    return numbers
