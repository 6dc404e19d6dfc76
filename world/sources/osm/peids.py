"""Peids out of OSM ids (docs/decisions/0020).

=========================  ===================================================
0 .. 10^15 - 1             free for other sources
10^15 + node id            a point
2 * 10^15 + way id         a line out of one way
3 * 10^15 + way id         an area out of one closed way
4 * 10^15 + relation id    an area out of a multipolygon or boundary relation
2^62 + 62-bit hash         a road segment, by its way and its nodes
=========================  ===================================================
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

SegmentSeed = tuple[int, int, int, int]


def segment_peid(way: int, nodes: Sequence[int], attempt: int = 0) -> int:
    """The peid of the stretch of a way along these nodes.

    Only what belongs to the stretch itself goes in: a junction somewhere else on the way, a
    reversed way or one more node along the stretch leave the peid as it was. The oldest inner
    node (node ids grow) tells apart two stretches of one way between the same two ends.
    ``attempt`` counts up when another segment has the same hash already.
    """
    return seeded_peid(segment_seed(way, nodes), attempt)


def segment_seed(way: int, nodes: Sequence[int]) -> SegmentSeed:
    """Return what the peid of a stretch is made from: way, lower end, higher end, inner node."""
    low, high = sorted((nodes[0], nodes[-1]))
    return way, low, high, min(nodes[1:-1], default=0)


def seeded_peid(seed: SegmentSeed, attempt: int = 0) -> int:
    """Return the peid of the segment that has this seed."""
    key = struct.pack("<4qi", *seed, attempt)
    digest = hashlib.blake2b(key, digest_size=8, person=b"segment").digest()
    return SEGMENT_BASE | (int.from_bytes(digest, "little") % SEGMENT_BASE)
