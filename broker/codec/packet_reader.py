"""Reads the control packets of an MQTT 5 client: strict checks first, then the ``mqtt5`` package.

The package does not check lengths and text, so every byte is checked before. What it accepts
beyond the specification (reserved bits, identifiers that are 0, empty lists) is refused here,
with the reason code that the specification gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

import mqtt5

from broker.codec import properties as rules
from broker.codec.fields import check_text, check_topic_name, field_end, string_end, varint
from broker.codec.publish import MessageProperties, select_properties
from broker.codec.reason_codes import ProtocolError, ReasonCode, malformed, violation

# Flags of CONNECT.
WILL: Final = 0x04
WILL_QOS: Final = 0x18
WILL_RETAIN: Final = 0x20
PASSWORD: Final = 0x40
USER_NAME: Final = 0x80

# First bytes of packets that only a broker sends, or that are sent once.
_NOT_FROM_CLIENTS: Final = {
    0x10: "a second CONNECT", 0x20: "CONNACK", 0x90: "SUBACK", 0xB0: "UNSUBACK", 0xD0: "PINGRESP",
}  # fmt: skip

# Reason codes of a receiver's answer (PUBACK, PUBREC) and of what follows it.
RECEIPT_CODES: Final = frozenset((0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99))
RELEASE_CODES: Final = frozenset((0x00, 0x92))

Packet = TypeVar("Packet")


@dataclass(frozen=True, slots=True)
class WillFields:
    """The will of a CONNECT; ``properties`` as they will be passed on."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    delay: int
    properties: MessageProperties


@dataclass(frozen=True, slots=True)
class ConnectHead:
    """CONNECT up to its properties, which determine the form of the answer.

    ``position`` is where the client identifier begins.
    """

    flags: int
    position: int
    maximum_packet_size: int | None
    users: int


@dataclass(frozen=True, slots=True)
class Connect:
    """A checked CONNECT."""

    packet: mqtt5.ConnectPacket
    will: WillFields | None


def read_connect_head(data: bytes, body: int, end: int, most_users: int) -> ConnectHead:
    """Return the beginning of the CONNECT of an MQTT 5 client in a body."""
    position = field_end(data, body, end)
    if position + 4 > end:
        raise malformed("CONNECT is cut off")
    flags = data[position + 1]
    _check_connect_flags(flags)
    section = rules.read_properties(data, position + 4, end, rules.IN_CONNECT, most_users)
    sizes = [
        int.from_bytes(data[start + 1 : stop], "big")
        for identifier, start, stop in section.found
        if identifier == rules.MAXIMUM_PACKET_SIZE
    ]
    return ConnectHead(flags, section.stop, sizes[0] if sizes else None, section.users)


def read_connect(data: bytes, body: int, end: int, head: ConnectHead, most_users: int) -> Connect:
    """Return the CONNECT whose beginning was read; the will's user properties count too."""
    flags = head.flags
    position = string_end(data, head.position, end)
    section: rules.PropertySection | None = None
    if flags & WILL:
        left = most_users - head.users
        section = rules.read_properties(data, position, end, rules.IN_WILL, left)
        topic_at = position = section.stop
        position = string_end(data, position, end)
        check_topic_name(check_text(data[topic_at + 2 : position]))
        position = field_end(data, position, end)
    if flags & USER_NAME:
        position = string_end(data, position, end)
    if flags & PASSWORD:
        position = field_end(data, position, end)
    if position != end:
        raise malformed("CONNECT has bytes after its last field")
    packet = _read(data, 0x10, body, end, mqtt5.ConnectPacket)
    if packet.authentication_data is not None and packet.authentication_method is None:
        raise violation("authentication data without a method")
    return Connect(packet, _will_fields(data, packet.will, section))


def _check_connect_flags(flags: int) -> None:
    if flags & 0x01:
        raise malformed("the reserved flag of CONNECT is set")
    if flags & WILL_QOS == WILL_QOS:
        raise malformed("a will with QoS 3")
    if not flags & WILL and flags & (WILL_QOS | WILL_RETAIN):
        raise malformed("will flags without a will")


def _will_fields(
    data: bytes, will: mqtt5.Will | None, section: rules.PropertySection | None
) -> WillFields | None:
    if will is None or section is None:
        return None
    return WillFields(
        topic=will.topic,
        payload=will.payload or b"",
        qos=int(will.qos),
        retain=will.retain,
        delay=will.will_delay_interval,
        properties=select_properties(data, section, dropped=rules.WILL_DELAY_INTERVAL),
    )


def read_acknowledgement(
    data: bytes, body: int, end: int, codes: frozenset[int], most_users: int
) -> tuple[int, int]:
    """Return packet identifier and reason code of PUBACK, PUBREC, PUBREL or PUBCOMP."""
    packet_id = _packet_id(data, body, end)
    if end == body + 2:
        return packet_id, ReasonCode.SUCCESS
    reason = data[body + 2]
    if reason not in codes:
        raise malformed(f"reason code 0x{reason:02x} does not belong into this packet")
    if end > body + 3:
        section = rules.read_properties(data, body + 3, end, rules.IN_ACKNOWLEDGEMENT, most_users)
        if section.stop != end:
            raise malformed("an acknowledgement has bytes after its properties")
    return packet_id, reason


def read_subscribe(data: bytes, body: int, end: int, most_users: int) -> mqtt5.SubscribePacket:
    """Return the SUBSCRIBE in a body; of its filters only the text is checked."""
    _packet_id(data, body, end)
    section = rules.read_properties(data, body + 2, end, rules.IN_SUBSCRIBE, most_users)
    position = section.stop
    if position == end:
        raise violation("SUBSCRIBE without a topic filter")
    while position < end:
        position = _filter_end(data, position, end)
        if position == end:
            raise malformed("a topic filter without its options")
        options = data[position]
        if options & 0xC0 or options & 0x03 == 0x03 or options & 0x30 == 0x30:
            raise malformed("subscription options that do not exist")
        position += 1
    return _read(data, 0x82, body, end, mqtt5.SubscribePacket)


def read_unsubscribe(data: bytes, body: int, end: int, most_users: int) -> mqtt5.UnsubscribePacket:
    """Return the UNSUBSCRIBE in a body."""
    _packet_id(data, body, end)
    section = rules.read_properties(data, body + 2, end, rules.IN_UNSUBSCRIBE, most_users)
    position = section.stop
    if position == end:
        raise violation("UNSUBSCRIBE without a topic filter")
    while position < end:
        position = _filter_end(data, position, end)
    return _read(data, 0xA2, body, end, mqtt5.UnsubscribePacket)


def _filter_end(data: bytes, position: int, end: int) -> int:
    stop = string_end(data, position, end)
    if stop == position + 2:
        raise malformed("a topic filter is empty")
    return stop


def read_disconnect(data: bytes, body: int, end: int, most_users: int) -> mqtt5.DisconnectPacket:
    """Return the DISCONNECT in a body."""
    if end > body + 1:
        section = rules.read_properties(data, body + 1, end, rules.IN_DISCONNECT, most_users)
        if section.stop != end:
            raise malformed("DISCONNECT has bytes after its properties")
    return _read(data, 0xE0, body, end, mqtt5.DisconnectPacket)


def check_auth(data: bytes, body: int, end: int, most_users: int) -> None:
    """Refuse an AUTH packet that is not well formed; the broker never accepts one."""
    if end > body + 1:
        section = rules.read_properties(data, body + 1, end, rules.IN_AUTH, most_users)
        if section.stop != end:
            raise malformed("AUTH has bytes after its properties")


def unexpected_packet(first: int) -> ProtocolError:
    """Return the error for a packet that no client sends at work, by its first byte."""
    if first in _NOT_FROM_CLIENTS:
        return violation(f"{_NOT_FROM_CLIENTS[first]} from a client")
    return malformed(f"a packet cannot begin with 0x{first:02x}")


def _packet_id(data: bytes, body: int, end: int) -> int:
    if body + 2 > end:
        raise malformed("the packet identifier is cut off")
    packet_id = data[body] << 8 | data[body + 1]
    if not packet_id:
        raise violation("the packet identifier is 0")
    return packet_id


def _read(data: bytes, first: int, body: int, end: int, kind: type[Packet]) -> Packet:
    """Return the packet as the package reads it; what it refuses is malformed."""
    whole = bytes((first,)) + varint(end - body) + data[body:end]
    try:
        packet, _ = mqtt5.read(memoryview(whole))
    except (ValueError, IndexError) as error:
        raise malformed(f"the packet cannot be read: {error}") from None
    if not isinstance(packet, kind):
        raise malformed("the packet is of another kind than its header says")
    return packet
