"""What the broker and its resolver process say to each other: a header in JSON, then peids."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any, BinaryIO, Final

import numpy as np

from spatial_udfs.entity_table import Int64s

_LENGTHS: Final = struct.Struct(">II")
_PEID_TYPE: Final = np.dtype("<i8")


def pack_frame(header: dict[str, Any], peids: Int64s | None = None) -> bytes:
    """A frame as bytes."""
    text = json.dumps(header).encode()
    body = b"" if peids is None else peids.astype(_PEID_TYPE, copy=False).tobytes()
    return _LENGTHS.pack(len(text), len(body)) + text + body


async def receive_frame(reader: asyncio.StreamReader) -> tuple[dict[str, Any], Int64s]:
    """The next frame; IncompleteReadError when the other side is gone."""
    header, body = _LENGTHS.unpack(await reader.readexactly(_LENGTHS.size))
    text = await reader.readexactly(header)
    return json.loads(text), np.frombuffer(await reader.readexactly(body), _PEID_TYPE)


def read_frame(file: BinaryIO) -> dict[str, Any] | None:
    """The header of the next frame, or None when the other side is gone."""
    lengths = file.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    header, body = _LENGTHS.unpack(lengths)
    text = file.read(header + body)
    return json.loads(text[:header]) if len(text) == header + body else None
