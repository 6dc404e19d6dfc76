"""Derives peids and keys from OSM ids (docs/decisions/0020, 0170).

=======================  ===================  ==========================================
peid                     key
=======================  ===================  ==========================================
0 .. 10^15 - 1                                free for other sources
10^15 + node id          node/ID              a point
2 * 10^15 + way id       way/ID#line          a line from one way
3 * 10^15 + way id       way/ID               an area from one closed way
4 * 10^15 + relation id  relation/ID          an area from a multipolygon or boundary relation
2^62 + 62-bit hash       way/ID#HASH          a road segment, by its way and its nodes
=======================  ===================  ==========================================
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Final

POINT_BASE: Final = 1_000_000_000_000_000
LINE_BASE: Final = 2_000_000_000_000_000
WAY_AREA_BASE: Final = 3_000_000_000_000_000
RELATION_AREA_BASE: Final = 4_000_000_000_000_000
MAX_OSM_ID: Final = POINT_BASE - 1

SEGMENT_BASE: Final = 2**62

# The keys of elements that become one entity, by the base of their peids. A closed way can be an
# area and a line; most are areas, so these have the plain key.
KEY_FORMS: Final = {
    POINT_BASE: "node/{}",
    LINE_BASE: "way/{}#line",
    WAY_AREA_BASE: "way/{}",
    RELATION_AREA_BASE: "relation/{}",
}

SegmentSeed = tuple[int, int, int, int]


def segment_peid(way: int, nodes: Sequence[int], attempt: int = 0) -> int:
    """Return the peid of the segment of a way along these nodes.

    It depends on the segment alone: a junction elsewhere on the way, a reversed way or one more
    node along the segment do not change it. The oldest inner node (node ids grow) distinguishes two
    segments of one way between the same two ends. ``attempt`` is raised when another segment has
    the same hash.
    """
    return seeded_peid(segment_seed(way, nodes), attempt)


def segment_seed(way: int, nodes: Sequence[int]) -> SegmentSeed:
    """Return the input of a segment's hash: way, lower end, higher end, oldest inner node."""
    low, high = sorted((nodes[0], nodes[-1]))
    return way, low, high, min(nodes[1:-1], default=0)


def seeded_peid(seed: SegmentSeed, attempt: int = 0) -> int:
    """Return the peid of the segment with this seed."""
    key = struct.pack("<4qi", *seed, attempt)
    digest = hashlib.blake2b(key, digest_size=8, person=b"segment").digest()
    return SEGMENT_BASE | (int.from_bytes(digest, "little") % SEGMENT_BASE)


def whole_key(base: int, osm_id: int) -> str:
    """Return the key of an element that becomes one entity; ``base`` is that of its peid."""
    return KEY_FORMS[base].format(osm_id)


def segment_key(way: int, peid: int) -> str:
    """Return the key of a road segment: its way, and its number, which is the hash in its peid.

    A running number along the way would name another segment after a new junction on the way.
    """
    return f"way/{way}#{peid - SEGMENT_BASE}"
