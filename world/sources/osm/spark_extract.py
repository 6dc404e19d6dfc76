"""Makes an OSM extract readable for Spark: checks the file first, and writes its parts as text.

Of a PBF block with several groups the reader of Sedona 1.8.0 takes the first one several times, and
dense nodes without a list of tags or another compression than zlib end in an error of Java that
does not say what is wrong. So the file is checked first.

Spark puts the parts of an extract together in Arrow columns. As OPL, osmium's format of one line
for each element, they go through the reader of whole extracts.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Any, Final

import numpy as np
import osmium
import pyarrow as pa
import pyarrow.compute as pc

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


Tags = Iterable[tuple[str, str]]
_SPECIAL: Final = re.compile(r"[^0-9A-Za-z_:.\-]")
# Fields of a way's node: position in the way, id, and location in steps of 1e-7 degrees, which is
# null if the extract does not have the node.
POSITION: Final = "position"
NODE: Final = "node"
X: Final = "x"
Y: Final = "y"
_OWNER: Final = "owner"


@dataclass(frozen=True, slots=True)
class LocatedWays:
    """Ways with their nodes in order, and the locations of the nodes that the extract has."""

    ids: list[int]
    nodes: list[list[int]]
    places: dict[int, tuple[int, int]]

    @classmethod
    def of(cls, ids: pa.Array, refs: pa.Array) -> LocatedWays:
        """Return the ways of two columns; SourceError if the file has an element twice."""
        inner = pc.list_flatten(refs)
        columns = {name: pc.struct_field(inner, name) for name in (POSITION, NODE, X, Y)}
        flat = pa.table({_OWNER: pc.list_parent_indices(refs), **columns})
        flat = flat.filter(pc.is_valid(flat.column(POSITION)))  # a way without nodes has one null
        flat = flat.sort_by([(_OWNER, "ascending"), (POSITION, "ascending")])
        owner, position, node = (
            flat.column(name).to_numpy().astype(np.int64) for name in (_OWNER, POSITION, NODE)
        )
        numbers: list[int] = ids.to_pylist()
        twice = (np.diff(owner) == 0) & (np.diff(position) == 0)
        if twice.any() or len(set(numbers)) < len(numbers):
            way = numbers[owner[1:][twice][0]] if twice.any() else "(some)"
            raise SourceError(f"way {way} or one of its nodes occurs twice; use 'osmium sort'")
        ends = np.searchsorted(owner, np.arange(len(numbers)), side="right")
        nodes = [part.tolist() for part in np.split(node, ends)][: len(numbers)]
        placed = flat.filter(pc.is_valid(flat.column(X)))
        x, y = (placed.column(name).to_pylist() for name in (X, Y))
        places = dict(zip(placed.column(NODE).to_pylist(), zip(x, y, strict=True), strict=True))
        return cls(numbers, nodes, places)

    def node_lines(self) -> list[str]:
        """Return a line of OPL for each node that has a location."""
        lines = {node: node_line(node, x, y) for node, (x, y) in self.places.items()}
        return in_order(lines)

    def way_lines(self, tags: Sequence[Any]) -> list[str]:
        """Return a line of OPL for each way."""
        rows = zip(self.ids, tags, self.nodes, strict=True)
        return in_order({way: way_line(way, its or (), nodes) for way, its, nodes in rows})


def node_line(node: int, x: int | None, y: int | None, tags: Tags = ()) -> str:
    """Return the line of a node, whose location is in steps of 1e-7 degrees or unknown."""
    place = "x y" if x is None else f"x{x}e-7 y{y}e-7"
    return f"n{node} {place} T{_tag_text(tags)}"


def way_line(way: int, tags: Tags, nodes: Sequence[int]) -> str:
    """Return the line of a way with its nodes."""
    return f"w{way} T{_tag_text(tags)} N{','.join([f'n{node}' for node in nodes])}"


def relation_line(relation: int, tags: Tags, ways: Iterable[tuple[int, str]]) -> str:
    """Return the line of a relation with its ways, each with its role."""
    members = ",".join(f"w{way}@{_escaped(role)}" for way, role in ways)
    return f"r{relation} T{_tag_text(tags)} M{members}"


def in_order(lines: Mapping[int, str]) -> list[str]:
    """Return the lines in the order that osmium needs: negative ids first, by absolute value."""
    return [lines[number] for number in sorted(lines, key=lambda each: (each > 0, abs(each)))]


def _tag_text(tags: Tags) -> str:
    return ",".join([f"{_escaped(key)}={_escaped(value)}" for key, value in tags])


@lru_cache(maxsize=65_536)
def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):x}%", text)
