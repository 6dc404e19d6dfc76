"""Looks through an OSM extract in PBF for what Sedona 1.8.0 would read wrongly.

Of a block with several groups Sedona's reader takes the first one several times, and dense nodes
without a list of tags or another compression than zlib end in an error of Java that nobody
understands.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

import osmium

from schemas.errors import SourceError

REWRITE: Final = "rewrite it with 'osmium cat', or import it with 'spaps import'"

# Numbers of fields in the messages of the format (fileformat.proto, osmformat.proto).
_TYPE, _DATA_SIZE = 1, 3
_RAW, _ZLIB = 1, 3
_GROUP, _DENSE, _KEYS_VALUES = 2, 2, 10
_VARINT, _FIXED64, _BYTES = 0, 1, 2


@dataclass(frozen=True, slots=True)
class ExtractFile:
    """An extract by its content; ``last_block`` is where its last block of elements begins."""

    sha256: str
    bytes: int
    last_block: int


def look_through(stream: IO[bytes], source: str) -> ExtractFile:
    """Return the facts of an open extract; a SourceError says what cannot be read by Sedona."""
    digest = hashlib.sha256()
    place, last_block = 0, -1

    def read(count: int) -> bytes:
        data = stream.read(count)
        digest.update(data)
        if len(data) < count:
            raise SourceError(f"{source}: PBF error: truncated data, or no OSM PBF at all")
        return data

    while prefix := stream.read(4):
        digest.update(prefix)
        head = read(int.from_bytes(prefix, "big") & 0xFFFF)
        fields = dict(_fields(head, source))
        block = read(fields.get(_DATA_SIZE, 0))
        if fields.get(_TYPE) == b"OSMHeader":
            _check_header(prefix + head + block, source)
        else:
            _check_block(block, source)
            last_block = place
        place += len(prefix) + len(head) + len(block)
    if last_block < 0:
        raise SourceError(f"{source}: there is no element in it")
    return ExtractFile(digest.hexdigest(), place, last_block)


def _check_header(header: bytes, source: str) -> None:
    try:
        found = osmium.FileProcessor(osmium.io.FileBuffer(header, "pbf")).header
    except RuntimeError as error:
        raise SourceError(f"{source}: {error}") from error
    if found.has_multiple_object_versions:
        raise SourceError(f"{source}: a history file; import an extract of one moment")


def _check_block(block: bytes, source: str) -> None:
    content = dict(_fields(block, source))
    if _RAW in content:
        elements = content[_RAW]
    elif _ZLIB in content:
        elements = zlib.decompress(content[_ZLIB])
    else:
        raise SourceError(f"{source}: not compressed by zlib: {REWRITE}")
    groups = [value for number, value in _fields(elements, source) if number == _GROUP]
    if len(groups) != 1:
        raise SourceError(f"{source}: a block has {len(groups)} groups of elements: {REWRITE}")
    number, first = next(_fields(groups[0], source), (0, b""))
    if number == _DENSE and _KEYS_VALUES not in dict(_fields(first, source)):
        raise SourceError(f"{source}: a block of nodes without list of tags: {REWRITE}")


def _fields(message: bytes, source: str) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field of a protocol buffer message."""
    place = 0
    try:
        while place < len(message):
            key, place = _varint(message, place)
            kind = key & 7
            if kind == _VARINT:
                value, place = _varint(message, place)
                yield key >> 3, value
                continue
            length, place = (
                _varint(message, place) if kind == _BYTES else (8 if kind == _FIXED64 else 4, place)
            )
            yield key >> 3, message[place : place + length]
            place += length
    except IndexError as error:
        raise SourceError(f"{source}: PBF error: a message is cut off") from error


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
