"""A generated OSM extract of any size, streamed to a file: streets, houses, lakes, relations.

Every ten ways are a block of their own on a grid: streets that cross in shared nodes, a closed
street, houses, a park with a hole in two ways, and now and then something broken.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import osmium

WAYS_PER_BLOCK: Final = 10
NODES_PER_BLOCK: Final = 64
SIDE: Final = 8
# Steps of about a metre and a half; a block is a hundred metres wide, a row has 2,000 blocks.
STEP: Final = 0.00002
BLOCK: Final = 10 * STEP
BLOCKS_PER_ROW: Final = 2_000
WEST, SOUTH = 6.2, 48.0
# One block in so many has a way with a missing node, and one a relation that is not complete.
BROKEN_EVERY: Final = 97

STREET: Final = {"highway": "residential"}
HOUSE: Final = {"building": "yes"}


def write_generated_extract(path: Path, ways: int) -> Path:
    """Write an extract with about as many ways, in the memory of one block of elements."""
    blocks = max(1, ways // WAYS_PER_BLOCK)
    with osmium.SimpleWriter(str(path), overwrite=True) as writer:
        for block in range(blocks):
            for node in range(NODES_PER_BLOCK):
                writer.add_node(_node(block, node))
        for block in range(blocks):
            for way in _ways(block, blocks):
                writer.add_way(way)
        for block in range(blocks):
            writer.add_relation(_relation(block))
    return path


def _node(block: int, node: int) -> Any:
    row, column = divmod(block, BLOCKS_PER_ROW)
    x = WEST + column * BLOCK + node % SIDE * STEP
    y = SOUTH + row * BLOCK + node // SIDE * STEP
    tags = {"shop": "bakery", "name": f"Bakery {block}"} if node == NODES_PER_BLOCK - 1 else {}
    number = block * NODES_PER_BLOCK + node + 1
    return osmium.osm.mutable.Node(id=number, location=(round(x, 7), round(y, 7)), tags=tags)


def _ways(block: int, blocks: int) -> list[Any]:
    """Return the ways of a block; its first street leads on into the next block."""
    first = block * NODES_PER_BLOCK + 1
    after = (first + NODES_PER_BLOCK) if block + 1 < blocks else first
    is_broken = block % BROKEN_EVERY == 0
    absent = blocks * NODES_PER_BLOCK + 1_000 + block
    drawn: list[tuple[list[int], dict[str, str]]] = [
        ([0, 1, 2, 3, 4, 5, 6, 7], {**STREET, "name": f"Street {block}"}),
        ([3, 11, 19, 27, 35], {"highway": "footway"}),
        ([5, 13, 14, 6, 5], {**STREET, "junction": "roundabout"}),
        ([16, 17, 25, 24, 16], HOUSE),
        ([20, 21, 29, 28, 20], {**HOUSE, "name": f"House {block}"}),
        ([32, 33, 41, 40, 32], {"landuse": "grass"}),
        ([36, 37, 38, 46], {}),
        ([46, 54, 53, 52, 44, 36], {}),
        ([45, 46, 54, 53, 45] if is_broken else [44, 45, 53, 52, 44], {}),
        ([48, 49, 57], {"waterway": "stream"}),
    ]
    ways = []
    for number, (nodes, tags) in enumerate(drawn):
        refs = [first + node for node in nodes]
        if number == 0:
            refs.append(after)
        if number == WAYS_PER_BLOCK - 1 and is_broken:
            refs.insert(1, absent)
        way = block * WAYS_PER_BLOCK + number + 1
        ways.append(osmium.osm.mutable.Way(id=way, nodes=refs, tags=tags))
    return ways


def _relation(block: int) -> Any:
    first = block * WAYS_PER_BLOCK + 1
    members = [("w", first + 6, "outer"), ("w", first + 7, "outer"), ("w", first + 8, "inner")]
    if block % BROKEN_EVERY == 1:
        members.append(("w", 2**40 + block, "outer"))
    tags = {"type": "multipolygon", "leisure": "park", "name": f"Park {block}"}
    return osmium.osm.mutable.Relation(id=block + 1, members=members, tags=tags)
