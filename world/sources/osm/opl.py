"""Parts of an extract as text in OPL, osmium's format of one line for each element.

Spark puts the parts together in Arrow columns. As OPL they go through the reader of whole extracts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.errors import SourceError

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
