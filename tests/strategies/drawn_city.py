"""A city small enough to see every answer by eye. One unit is one metre.

::

     y
     6                                         [34]
                                            ===19====
     5                                                      *43
     4   +----------------------+                  o33
         |          |           |                  |
     3   |          17    *41   |     *42          18
         |   [31]   |           |                  |
     2 -11--12-----------13-------14-------15------+---16---
         |                      |   [32]
     1   +-----------+          |
         |     2     |     1    |
     0   +====10================+

      x -4   0      2          4        6        8       10

The square 1 reaches from (0, 0) to (4, 4); the zone 2 inside it shares its south-west corner.
Street 10 runs along the border of both. 31 lies at 12, 32 at 14, 34 at 19; 33 is the end of 18.
"""

from __future__ import annotations

from typing import Final

from shapely import LineString, Point, box

from spatial_udfs.entity_table import EntityTable
from tests.strategies.worlds import table_of

WEST, INNER_WEST, INNER_EAST, EAST, EAST_2, EAST_3 = 11, 12, 13, 14, 15, 16
ZONE, CORNER_ZONE, BORDER_STREET, INNER_DEAD_END, SIDE_STREET, FAR_STREET = 1, 2, 10, 17, 18, 19

ENTITIES: Final = (
    (ZONE, ("zone/square",), box(0, 0, 4, 4)),
    (CORNER_ZONE, ("zone/corner",), box(0, 0, 2, 1)),
    (BORDER_STREET, ("road/minor",), LineString([(0, 0), (4, 0)])),
    (WEST, ("road/major",), LineString([(-4, 2), (0, 2)])),
    (INNER_WEST, ("road/major",), LineString([(0, 2), (2, 2)])),
    (INNER_EAST, ("road/major",), LineString([(2, 2), (4, 2)])),
    (EAST, ("road/major",), LineString([(4, 2), (6, 2)])),
    (EAST_2, ("road/major",), LineString([(6, 2), (8, 2)])),
    (EAST_3, ("road/major",), LineString([(8, 2), (10, 2)])),
    (INNER_DEAD_END, ("road/minor",), LineString([(2, 2), (2, 4 - 0.5)])),
    (SIDE_STREET, ("road/minor",), LineString([(8, 2), (8, 4)])),
    (FAR_STREET, ("road/minor",), LineString([(6, 5.5), (8, 5.5)])),
    (31, ("transport/parking",), box(0.5, 2, 1.5, 2.5)),
    (32, ("transport/parking",), box(4.5, 1.5, 5.5, 2)),
    (33, ("transport/parking",), Point(8, 4)),
    (34, ("transport/parking",), box(6.5, 5.5, 7.5, 6)),
    (41, ("shop/bakery",), Point(3, 3)),
    (42, ("shop/books",), Point(5, 3)),
    (43, ("shop/bakery", "shop/books"), Point(9, 5)),
)


def drawn_city() -> EntityTable:
    """The city above as a table."""
    return table_of(ENTITIES)
