"""Counts the topic filters of a packet before any of them is read."""

from __future__ import annotations

from broker.codec.errors import malformed, violation
from broker.codec.framing import read_varint


def count_filters(data: bytes, body: int, end: int, *, option_bytes: int) -> tuple[int, int]:
    """Return the packet identifier and the number of topic filters.

    ``option_bytes`` follow each filter: 1 in SUBSCRIBE, 0 in UNSUBSCRIBE. Only lengths are
    looked at, so a packet of one megabyte is counted in some milliseconds.
    """
    if body + 2 > end:
        raise malformed("the packet identifier is cut off")
    packet_id = data[body] << 8 | data[body + 1]
    if not packet_id:
        raise violation("the packet identifier is 0")
    length, position = read_varint(data, body + 2, end)
    position += length
    count = 0
    # The last place where the two bytes of a length fit.
    last = end - 1
    while position < last:
        position += (data[position] << 8 | data[position + 1]) + 2 + option_bytes
        count += 1
    if position != end:
        raise malformed("a topic filter is cut off")
    return packet_id, count
