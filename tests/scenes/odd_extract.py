"""An OSM extract in which everything odd happens that real ones have, and some that none has."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import osmium

Members = list[tuple[str, int, str]]

LEFT, BOTTOM, STEP = 7.4, 43.7, 0.0001
COLUMNS: Final = 100
ROAD: Final = {"highway": "residential"}
HOUSE: Final = {"building": "yes"}
# Commas, signs of the text format, white space, and letters from afar.
NAME: Final = 'a,b=c %@ \n\t"é" 東\U0001f600'
ABSENT: Final = 9_999

WAYS: Final[dict[int, tuple[list[int], dict[str, str]]]] = {
    1: ([1, 2, 3], {**ROAD, "name": NAME}),
    2: ([3, 4], ROAD),
    3: ([5, 6, 107, 106, 5], {**ROAD, "junction": "roundabout"}),
    4: ([207, 107], {"highway": "primary", "ref": "D 1"}),
    5: ([9, 10, 110, 109, 9], ROAD),
    6: ([13, 14, 114, 13, 12, 112, 13], ROAD),  # three times through a node
    7: ([20, 122, 22, 120], ROAD),  # crosses itself where no node is
    8: ([24, 25, 26, 25, 24], ROAD),  # there and back
    9: ([28, 28, 29, 29, 29, 30], ROAD),
    10: ([31], ROAD),
    11: ([31, 31], ROAD),
    12: ([], ROAD),
    13: ([33, ABSENT, 34, 35, ABSENT, 36], ROAD),
    14: ([ABSENT, ABSENT + 1], ROAD),
    15: ([40, 41, ABSENT, 141, 140, 40], ROAD),
    16: ([42, 43, 143, 142, 42], {"highway": "pedestrian", "area": "yes"}),
    17: ([45, 46, 146], {"waterway": "stream"}),
    18: ([48, 49, 149, 48], {"man_made": "pier"}),
    19: ([51, ABSENT, 52, 53], {"railway": "rail"}),
    20: ([300, 301, 401, 400, 300], {**HOUSE, "name": "  house "}),
    21: ([303, 404, 304, 403, 303], HOUSE),  # a bow tie
    22: ([306, 307, 407], HOUSE),  # not closed
    23: ([309, 310, 410, 309], {**HOUSE, "area": "no"}),
    24: ([312, 313, ABSENT, 412, 312], HOUSE),
    25: ([315, 316, 416, 8001], HOUSE),  # ends in two nodes at one place
    26: ([318, 319, 318], HOUSE),
    27: ([321, 322, 422, 421, 321, 322], HOUSE),
    30: ([500, 501, 502], {}),
    31: ([502, 602, 601, 600, 500], HOUSE),
    32: ([504, 510, 1110, 1104, 504], {}),
    33: ([605, 606, 706, 705, 605], {}),
    34: ([706, 707, 807, 806, 706], {"landuse": "grass"}),  # touches 33 in a corner
    35: ([705, 706, 806, 805, 705], {}),  # shares edges with 33 and 34
    36: ([520, 521, 621], {}),
    37: ([530, 531, ABSENT, 631, 530], {}),
    38: ([509, 511, 911, 909, 509], {}),  # crosses 32
    39: ([540, 541, 641, 640, 540], {}),
    40: ([542, 543, 643, 642, 542], {}),
    -5: ([1, 101], ROAD),  # never uploaded
}
PARK: Final = {"type": "multipolygon", "leisure": "park"}


def _outer(*ways: int) -> Members:
    return [("w", way, "outer") for way in ways]


RELATIONS: Final[dict[int, tuple[Members, dict[str, str]]]] = {
    1: (_outer(30, 31), {**PARK, "name": NAME}),
    2: ([*_outer(32), ("w", 33, "inner")], PARK),
    3: ([*_outer(32), ("w", 33, "inner"), ("w", 34, "inner")], PARK),
    4: ([("w", 32, ""), ("w", 33, "x,@y"), ("w", 34, ""), ("w", 35, "outer")], PARK),
    5: (_outer(30, 31, ABSENT), PARK),
    6: (_outer(36), PARK),
    7: (_outer(37), PARK),
    8: ([*_outer(32), ("w", 38, "inner")], PARK),
    9: (_outer(39, 40), {"type": "boundary", "boundary": "administrative", "admin_level": "8"}),
    10: (_outer(39, 39), PARK),
    11: ([("n", 1, "label"), ("r", 1, "subarea")], PARK),
    12: ([], PARK),
    13: (_outer(22), {"type": "multipolygon"}),  # no rule fits, but way 22 is a part of it
    14: (_outer(39), {"type": "route", "leisure": "park"}),
    15: ([("n", 1, "label"), *_outer(40), ("r", 99, "")], PARK),
    -2: (_outer(39), PARK),
}


def write_odd_extract(path: Path, seed: int = 3) -> Path:
    """Write the extract, with some hundred ways and relations by chance beside the odd ones."""
    chance = random.Random(seed)  # noqa: S311  nothing here is a secret
    ways = {**WAYS, **{2000 + number: _any_way(chance) for number in range(250)}}
    drawn = {number: _any_relation(chance) for number in range(3000, 3060)}
    with osmium.SimpleWriter(str(path), overwrite=True) as writer:
        _write_nodes(writer)
        for number in sorted(ways, key=lambda each: (each > 0, abs(each))):
            nodes, tags = ways[number]
            writer.add_way(osmium.osm.mutable.Way(id=number, nodes=nodes, tags=tags))
        for number in sorted({**RELATIONS, **drawn}, key=lambda each: (each > 0, abs(each))):
            members, tags = {**RELATIONS, **drawn}[number]
            relation = osmium.osm.mutable.Relation(id=number, members=members, tags=tags)
            writer.add_relation(relation)
    return path


def _write_nodes(writer: osmium.SimpleWriter) -> None:
    shop = {"shop": "bakery;Café Bar", "name": NAME}
    places = {number: (number % COLUMNS, number // COLUMNS) for number in range(1, 2_400)}
    places[8001] = places[315]
    tagged = {50: shop, 51: {"name": "no rule"}, 52: {"shop": "no"}}
    writer.add_node(osmium.osm.mutable.Node(id=-1, location=(LEFT, BOTTOM), tags=shop))
    for number, (column, row) in places.items():
        location = (round(LEFT + column * STEP, 7), round(BOTTOM + row * STEP, 7))
        node = osmium.osm.mutable.Node(id=number, location=location, tags=tagged.get(number, {}))
        writer.add_node(node)
    writer.add_node(osmium.osm.mutable.Node(id=9_000, tags=shop))


def _any_way(chance: random.Random) -> tuple[list[int], dict[str, str]]:
    """Return a short walk over a small part of the grid, so that ways meet and cross."""
    node = 1200 + chance.randrange(12) + COLUMNS * chance.randrange(12)
    nodes = [node]
    for _ in range(chance.randrange(1, 9)):
        node += chance.choice([1, -1, COLUMNS, -COLUMNS, COLUMNS + 1, 0])
        nodes.append(ABSENT if chance.random() < 0.02 else node)
    if chance.random() < 0.5:
        nodes.append(nodes[0])
    return nodes, chance.choice([ROAD, ROAD, HOUSE, HOUSE, {"waterway": "river"}, {}])


def _any_relation(chance: random.Random) -> tuple[Members, dict[str, str]]:
    count = chance.randrange(1, 5)
    roles = chance.choices(["outer", "inner", ""], [4, 2, 1], k=count)
    return [("w", chance.randrange(2000, 2250), role) for role in roles], PARK
