"""The frames that the broker and its helper processes exchange: a header, then arrays.

| part | bytes |
|---|---|
| length of the header, the highest byte first | 4 |
| header: a JSON object; ``arrays`` lists type and length of each array | as many as said |
| the arrays, one after the other | as many as said |

Helper processes never get input from clients directly. The limits detect a frame that is read from
a wrong position, before memory is allocated for it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Generator, Iterator
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from schemas.errors import SpapsError

if TYPE_CHECKING:
    import asyncio

Arrays: TypeAlias = list[NDArray[Any]]

MAX_HEADER_BYTES: Final = 2**28
MAX_ARRAY_BYTES: Final = 2**34
_LENGTH: Final = struct.Struct(">I")
# Signed and unsigned integers.
_KINDS: Final = "iu"


class FrameError(SpapsError):
    """The received bytes are no frame: the two sides are out of step."""


def frame_parts(header: dict[str, Any], *arrays: NDArray[Any]) -> Iterator[bytes | memoryview]:
    """Yield the parts of a frame in order; arrays are not copied."""
    kinds = [[one.dtype.str, len(one)] for one in arrays]
    text = json.dumps({**header, "arrays": kinds}).encode()
    yield _LENGTH.pack(len(text)) + text
    for one in arrays:
        # An empty array has no buffer to view.
        yield np.ascontiguousarray(one).data.cast("B") if len(one) else b""


def pack_frame(header: dict[str, Any], *arrays: NDArray[Any]) -> bytes:
    """Return a whole frame as bytes."""
    return b"".join(frame_parts(header, *arrays))


def read_frame(file: IO[bytes]) -> tuple[dict[str, Any], Arrays]:
    """Return the next frame; EOFError at the end of the stream, FrameError for other bytes."""
    reading = _reading()
    size = next(reading)
    while True:
        data = file.read(size)
        if len(data) < size:
            raise EOFError
        try:
            size = reading.send(data)
        except StopIteration as done:
            frame: tuple[dict[str, Any], Arrays] = done.value
            return frame


async def receive_frame(reader: asyncio.StreamReader) -> tuple[dict[str, Any], Arrays]:
    """Return the next frame on the event loop; errors as ``read_frame``."""
    reading = _reading()
    size = next(reading)
    while True:
        # IncompleteReadError is an EOFError.
        data = await reader.readexactly(size)
        try:
            size = reading.send(data)
        except StopIteration as done:
            frame: tuple[dict[str, Any], Arrays] = done.value
            return frame


def _reading() -> Generator[int, bytes, tuple[dict[str, Any], Arrays]]:
    """Yield the number of bytes needed next, and return the frame made of them."""
    (size,) = _LENGTH.unpack((yield _LENGTH.size))
    if size > MAX_HEADER_BYTES:
        raise FrameError(f"a frame says that its header has {size:,} bytes")
    header, kinds = _header((yield size))
    arrays = []
    for kind, count in kinds:
        arrays.append(np.frombuffer((yield kind.itemsize * count), kind))
    return header, arrays


def _header(text: bytes) -> tuple[dict[str, Any], list[tuple[np.dtype[Any], int]]]:
    """Return a header without its list of arrays, and that list."""
    try:
        header = json.loads(text)
        kinds = [(np.dtype(kind), int(count)) for kind, count in header.pop("arrays")]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FrameError("a frame does not begin with a header") from error
    for kind, count in kinds:
        if kind.kind not in _KINDS or not 0 <= count * kind.itemsize <= MAX_ARRAY_BYTES:
            raise FrameError(f"a frame says that it has {count:,} numbers of type {kind.str}")
    return header, kinds
