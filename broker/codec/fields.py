"""The fields of packets: the fixed header, numbers, texts, topic names and topic filters.

The limit of a packet is checked by the length that its header declares, before any of its body
is kept. Incomplete packets wait in an ``Inbox``, whose cost is linear in the bytes, however
small the pieces are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.codec.reason_codes import ProtocolError, ReasonCode, malformed, violation

# A variable byte integer has at most four bytes.
MAX_REMAINING_LENGTH: Final = 268_435_455
SHARE_PREFIX: Final = "$share/"
SYSTEM_PREFIX: Final = "$SYS/"


def encode_varint(number: int) -> bytes:
    """Return a variable byte integer."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


# Nearly every length is short, so the short ones are encoded in advance.
SHORT_VARINTS: Final = tuple(encode_varint(number) for number in range(0x4000))


def varint(number: int) -> bytes:
    """Return a variable byte integer, from the table when it is short."""
    return SHORT_VARINTS[number] if number < 0x4000 else encode_varint(number)


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return the number at ``position`` and the position after it, which is at most ``end``."""
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
    """Return start and end of the body of the packet at ``position``; None: header incomplete.

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
        """Return the bytes that can be read now: none while the packet is incomplete."""
        if not self.pending:
            return data
        self.pending += data
        if len(self.pending) < self._needed:
            return b""
        joined = bytes(self.pending)
        self.pending = bytearray()
        return joined

    def keep(self, rest: bytes, needed: int) -> None:
        """Keep the beginning of a packet until it has ``needed`` bytes (or a longer header)."""
        self.pending += rest
        self._needed = needed

    def __len__(self) -> int:
        """Return the number of bytes held."""
        return len(self.pending)


def count_filters(
    data: bytes, body: int, end: int, *, option_bytes: int, has_properties: bool
) -> tuple[int, int]:
    """Return the packet identifier and the number of topic filters.

    ``option_bytes`` follow each filter: 1 in SUBSCRIBE, 0 in UNSUBSCRIBE. Only lengths are
    looked at, so a packet of one megabyte is counted in some milliseconds.
    """
    if body + 2 > end:
        raise malformed("the packet identifier is cut off")
    packet_id = data[body] << 8 | data[body + 1]
    if not packet_id:
        raise violation("the packet identifier is 0")
    position = body + 2
    if has_properties:
        length, position = read_varint(data, position, end)
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


def field_end(data: bytes, position: int, end: int) -> int:
    """Return where the field with a two-byte length at ``position`` ends, at most at ``end``."""
    content = position + 2
    if content > end:
        raise malformed("a length is cut off")
    stop = content + (data[position] << 8 | data[position + 1])
    if stop > end:
        raise malformed("a field is longer than what is left of its packet")
    return stop


def check_text(field: bytes) -> str:
    """Return the text of a UTF-8 field; surrogates, U+0000 and overlong forms are malformed."""
    try:
        text = field.decode()
    except UnicodeDecodeError as error:
        raise malformed(f"a string is not UTF-8 (byte {error.start})") from None
    if "\0" in text:
        raise malformed("a string holds U+0000")
    return text


def string_end(data: bytes, position: int, end: int) -> int:
    """Check the UTF-8 string at ``position``, and return where it ends."""
    stop = field_end(data, position, end)
    check_text(data[position + 2 : stop])
    return stop


class FilterError(ValueError):
    """A topic filter that cannot be subscribed to; the text says why."""


@dataclass(frozen=True, slots=True)
class ParsedFilter:
    """A filter and its share name, which is None for a subscription that is not shared."""

    topic_filter: str
    share_name: str | None = None


def check_topic_name(topic: str) -> None:
    """Refuse topics that no PUBLISH may have: an empty one, or one with a wildcard."""
    if not topic:
        raise violation("the topic is empty and no alias stands for it")
    if "+" in topic or "#" in topic:
        raise ProtocolError(ReasonCode.TOPIC_NAME_INVALID, "the topic holds a wildcard")


def parse_filter(text: str, max_levels: int) -> ParsedFilter:
    """Return the filter of a SUBSCRIBE; FilterError when it is not one."""
    parsed = _split_share(text)
    _check_filter(parsed.topic_filter, max_levels)
    return parsed


def _split_share(text: str) -> ParsedFilter:
    if not text.startswith(SHARE_PREFIX):
        return ParsedFilter(text)
    share_name, slash, topic_filter = text[len(SHARE_PREFIX) :].partition("/")
    if not share_name or not slash or "+" in share_name or "#" in share_name:
        raise FilterError("a shared subscription is written $share/name/filter")
    return ParsedFilter(topic_filter, share_name)


def _check_filter(topic_filter: str, max_levels: int) -> None:
    if not topic_filter:
        raise FilterError("the filter is empty")
    if topic_filter.count("/") >= max_levels:
        raise FilterError(f"the filter has more than {max_levels} levels")
    if "#" in topic_filter or "+" in topic_filter:
        levels = topic_filter.split("/")
        for number, level in enumerate(levels, start=1):
            if "#" in level and (level != "#" or number < len(levels)):
                raise FilterError("# must be the last level, alone")
            if "+" in level and level != "+":
                raise FilterError("+ must stand alone in its level")
