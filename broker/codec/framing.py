"""The fixed header: where a packet ends, decided before any of its body is kept.

Limits are enforced here, from the declared length, so that no length a stranger writes is
ever allocated. What is incomplete waits in an ``Inbox``, whose cost is linear in the bytes
fed however small the pieces are.
"""

from __future__ import annotations

from typing import Final

from broker.codec.errors import ProtocolError, malformed
from broker.codec.reason_codes import ReasonCode

# A variable byte integer has at most four bytes.
MAX_REMAINING_LENGTH: Final = 268_435_455


def encode_varint(number: int) -> bytes:
    """A variable byte integer."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


# Nearly every length is short, so the short ones are encoded once and for all.
SHORT_VARINTS: Final = tuple(encode_varint(number) for number in range(0x4000))


def varint(number: int) -> bytes:
    """A variable byte integer, from the table when it is short."""
    return SHORT_VARINTS[number] if number < 0x4000 else encode_varint(number)


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """The number at ``position`` and the position after it, which lies within ``end``."""
    number = 0
    for length in range(4):
        if position == end:
            raise malformed("a variable byte integer is cut off")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << 7 * length
        if byte < 0x80:
            if byte == 0 and length:
                raise malformed("a variable byte integer has more bytes than it needs")
            return number, position
    raise malformed("a variable byte integer has more than four bytes")


def read_header(data: bytes, position: int, limit: int) -> tuple[int, int] | None:
    """Start and end of the body of the packet at ``position``; None: the header is cut off.

    ``limit`` counts the whole packet, fixed header included. The end may lie beyond the data.
    """
    length = 0
    at = position + 1
    for count in range(4):
        if at >= len(data):
            return None
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            if byte == 0 and count:
                raise malformed("the remaining length has more bytes than it needs")
            if at + length - position > limit:
                raise ProtocolError(
                    ReasonCode.PACKET_TOO_LARGE,
                    f"a packet of {at + length - position} bytes; at most {limit} are accepted",
                )
            return at, at + length
    raise malformed("the remaining length has more than four bytes")


class Inbox:
    """Bytes of a packet that is not complete yet."""

    __slots__ = ("_needed", "pending")

    def __init__(self) -> None:
        self.pending = bytearray()
        self._needed = 0

    def join(self, data: bytes) -> bytes:
        """What can be worked on now: empty while the packet that was begun is incomplete."""
        if not self.pending:
            return data
        self.pending += data
        if len(self.pending) < self._needed:
            return b""
        joined = bytes(self.pending)
        self.pending = bytearray()
        return joined

    def keep(self, rest: bytes, needed: int) -> None:
        """Hold the beginning of a packet until it has ``needed`` bytes (or a longer header)."""
        self.pending += rest
        self._needed = needed

    def __len__(self) -> int:
        """The number of bytes held."""
        return len(self.pending)
