"""Ways of a part of an extract with the places of their nodes, out of Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.errors import SourceError
from world.sources.osm import opl

# What a way says of each of its nodes: where in the way it stands, its id, and its place in steps
# of 1e-7 degrees, or null where the extract does not have it.
POSITION: Final = "position"
NODE: Final = "node"
X: Final = "x"
Y: Final = "y"
_OWNER: Final = "owner"


@dataclass(frozen=True, slots=True)
class LocatedWays:
    """Ways with their nodes in order, and the places that the extract has of those."""

    ids: list[int]
    nodes: list[list[int]]
    places: dict[int, tuple[int, int]]

    @classmethod
    def of(cls, ids: pa.Array, refs: pa.Array) -> LocatedWays:
        """Out of columns; an element that the file has twice is an error."""
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
            raise SourceError(f"way {way} or a node of it is twice in it; use 'osmium sort'")
        ends = np.searchsorted(owner, np.arange(len(numbers)), side="right")
        nodes = [part.tolist() for part in np.split(node, ends)][: len(numbers)]
        placed = flat.filter(pc.is_valid(flat.column(X)))
        x, y = (placed.column(name).to_pylist() for name in (X, Y))
        places = dict(zip(placed.column(NODE).to_pylist(), zip(x, y, strict=True), strict=True))
        return cls(numbers, nodes, places)

    def node_lines(self) -> list[str]:
        """Return a line of OPL for each node that has a place."""
        lines = {node: opl.node_line(node, x, y) for node, (x, y) in self.places.items()}
        return opl.in_order(lines)

    def way_lines(self, tags: Sequence[Any]) -> list[str]:
        """Return a line of OPL for each way."""
        rows = zip(self.ids, tags, self.nodes, strict=True)
        return opl.in_order({way: opl.way_line(way, its or (), nodes) for way, its, nodes in rows})
