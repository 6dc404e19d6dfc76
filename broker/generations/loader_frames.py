"""What the broker and its loader process say to each other: a header in JSON, then arrays."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

_LENGTH: Final = struct.Struct(">I")


def write_arrays(file: BinaryIO, header: dict[str, Any], *arrays: NDArray[Any]) -> None:
    """Write one frame."""
    file.write(packed_head(header, *arrays))
    file.writelines(np.ascontiguousarray(one).data.cast("B") if len(one) else b"" for one in arrays)


def packed_head(header: dict[str, Any], *arrays: NDArray[Any]) -> bytes:
    """Everything of a frame but the arrays' bytes, which follow it."""
    shapes = [[one.dtype.str, len(one)] for one in arrays]
    text = json.dumps({**header, "arrays": shapes}).encode()
    return _LENGTH.pack(len(text)) + text


def read_arrays(file: BinaryIO) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Read one frame; EOFError when the other side is gone."""
    header = json.loads(_read(file, _LENGTH.unpack(_read(file, _LENGTH.size))[0]))
    return header, [
        np.frombuffer(_read(file, np.dtype(kind).itemsize * count), kind)
        for kind, count in header["arrays"]
    ]


async def receive_arrays(
    reader: asyncio.StreamReader,
) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """The same on the event loop; IncompleteReadError when the other side is gone."""
    (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    header = json.loads(await reader.readexactly(size))
    return header, [
        np.frombuffer(await reader.readexactly(np.dtype(kind).itemsize * count), kind)
        for kind, count in header["arrays"]
    ]


def _read(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data
