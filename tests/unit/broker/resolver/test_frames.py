"""The frames between the broker and its helper processes: whole, cut, oversized, garbage."""

from __future__ import annotations

import asyncio
import io
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from broker.resolver.frames import (
    MAX_ARRAY_BYTES,
    MAX_HEADER_BYTES,
    FrameError,
    pack_frame,
    read_frame,
    receive_frame,
)

ARRAYS = (np.arange(5, dtype=np.int64), np.empty(0, np.uint32), np.array([7, 8], np.uint8))
FRAME = pack_frame({"number": 3, "text": "näher"}, *ARRAYS)


def read_on_event_loop(data: bytes) -> Any:
    async def read() -> Any:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await receive_frame(reader)

    return asyncio.run(read())


@pytest.fixture(params=["from a file", "on the event loop"])
def read(request: pytest.FixtureRequest) -> Callable[[bytes], Any]:
    """Both ways to read a frame."""
    if request.param == "from a file":
        return lambda data: read_frame(io.BytesIO(data))
    return read_on_event_loop


def with_header(header: bytes) -> bytes:
    return struct.pack(">I", len(header)) + header


def with_arrays(*arrays: Any) -> bytes:
    return with_header(json.dumps({"arrays": arrays}).encode())


def test_a_frame_is_read_as_it_was_packed(read: Callable[[bytes], Any]) -> None:
    header, arrays = read(FRAME + b"the beginning of the next")
    assert header == {"number": 3, "text": "näher"}
    assert [one.dtype for one in arrays] == [one.dtype for one in ARRAYS]
    assert [one.tolist() for one in arrays] == [one.tolist() for one in ARRAYS]


def test_an_array_that_is_a_part_of_another_is_packed_in_its_order(
    read: Callable[[bytes], Any],
) -> None:
    _, (found,) = read(pack_frame({}, np.arange(6)[::2]))
    assert found.tolist() == [0, 2, 4]


def test_a_frame_that_is_cut_anywhere_is_an_end(read: Callable[[bytes], Any]) -> None:
    for size in range(len(FRAME)):
        with pytest.raises(EOFError):
            read(FRAME[:size])


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", MAX_HEADER_BYTES + 1),
        b"HTTP/1.1 200 OK\r\n\r\n",
        with_arrays(["<i8", MAX_ARRAY_BYTES // 8 + 1]),
        with_arrays(["<i8", 2**70]),
    ],
    ids=["header", "another protocol", "array", "number"],
)
def test_an_oversized_frame_is_refused_before_it_is_read(
    read: Callable[[bytes], Any], data: bytes
) -> None:
    with pytest.raises(FrameError):
        read(data)


@pytest.mark.parametrize(
    "data",
    [
        with_header(b"\xff\xfe"),
        with_header(b"{"),
        with_header(b"[]"),
        with_header(b"{}"),
        with_header(b'{"arrays": 3}'),
        with_arrays(["<i8"]),
        with_arrays(["no type", 1]),
        with_arrays(["O", 1]),
        with_arrays(["<i8", -1]),
        with_arrays(["<i8", None]),
    ],
)
def test_garbage_is_refused(read: Callable[[bytes], Any], data: bytes) -> None:
    with pytest.raises(FrameError):
        read(data + bytes(64))
