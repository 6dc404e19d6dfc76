"""Checks which properties stand in which packet, how often, and with which values.

The bytes are checked before anything else reads them: the ``mqtt5`` package reads past the end
of a property section and panics on text that is not UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from broker.codec.fields import check_text, field_end, read_varint, string_end
from broker.codec.reason_codes import (
    ProtocolError,
    ReasonCode,
    UserPropertyLimitError,
    malformed,
    violation,
)
from schemas.mqtt_names import NSID, PEID

PAYLOAD_FORMAT_INDICATOR: Final = 0x01
MESSAGE_EXPIRY_INTERVAL: Final = 0x02
CONTENT_TYPE: Final = 0x03
RESPONSE_TOPIC: Final = 0x08
CORRELATION_DATA: Final = 0x09
SUBSCRIPTION_IDENTIFIER: Final = 0x0B
SESSION_EXPIRY_INTERVAL: Final = 0x11
AUTHENTICATION_METHOD: Final = 0x15
AUTHENTICATION_DATA: Final = 0x16
REQUEST_PROBLEM_INFORMATION: Final = 0x17
WILL_DELAY_INTERVAL: Final = 0x18
REQUEST_RESPONSE_INFORMATION: Final = 0x19
REASON_STRING: Final = 0x1F
RECEIVE_MAXIMUM: Final = 0x21
TOPIC_ALIAS_MAXIMUM: Final = 0x22
TOPIC_ALIAS: Final = 0x23
USER_PROPERTY: Final = 0x26
MAXIMUM_PACKET_SIZE: Final = 0x27

# Returns the end of the value at a position, or raises.
ValueReader: TypeAlias = Callable[[bytes, int, int], int]
# What a packet may hold besides user properties, which every packet may.
PropertyRules: TypeAlias = Mapping[int, ValueReader]


# User properties that the broker reads in a message, and how they begin.
_OWN_NAMES: Final = frozenset((NSID.encode(), PEID.encode()))
NSID_BEGINNING: Final = b"\x26\x00\x04" + NSID.encode()
PEID_BEGINNING: Final = b"\x26\x00\x04" + PEID.encode()
# Bytes of such a name and of the length that follows it.
_OWN_SIZE: Final = 6


class Property(NamedTuple):
    """A property from ``start``, where its identifier is, to ``stop``, after its value."""

    identifier: int
    start: int
    stop: int


class PropertySection(NamedTuple):
    """A checked property section.

    ``found`` holds its properties in order, of the user properties only nsid and peid: the
    others can be many, and nothing reads them. ``users`` counts all user properties.
    """

    found: list[Property]
    start: int
    stop: int
    users: int


def _fixed(size: int) -> ValueReader:
    def end_of(_data: bytes, position: int, end: int) -> int:
        if position + size > end:
            raise malformed("a property is cut off")
        return position + size

    return end_of


_one, _two, _four = _fixed(1), _fixed(2), _fixed(4)


def _flag(data: bytes, position: int, end: int) -> int:
    stop = _one(data, position, end)
    if data[position] > 1:
        raise violation("a property that is 0 or 1 has another value")
    return stop


def _not_zero(read: ValueReader) -> ValueReader:
    def end_of(data: bytes, position: int, end: int) -> int:
        stop = read(data, position, end)
        if not any(data[position:stop]):
            raise violation("a property that must not be 0 is 0")
        return stop

    return end_of


def _topic_alias(data: bytes, position: int, end: int) -> int:
    stop = _two(data, position, end)
    if not any(data[position:stop]):
        raise ProtocolError(ReasonCode.TOPIC_ALIAS_INVALID, "a topic alias is 0")
    return stop


def _varint(data: bytes, position: int, end: int) -> int:
    return read_varint(data, position, end)[1]


def _broker_only(data: bytes, position: int, end: int) -> int:
    _varint(data, position, end)
    raise violation("a subscription identifier in the PUBLISH of a client")


def _response_topic(data: bytes, position: int, end: int) -> int:
    stop = string_end(data, position, end)
    topic = data[position + 2 : stop]
    if not topic:
        raise violation("a response topic is empty")
    if b"+" in topic or b"#" in topic:
        raise violation("a response topic holds a wildcard")
    return stop


_MESSAGE: Final = {
    PAYLOAD_FORMAT_INDICATOR: _flag,
    MESSAGE_EXPIRY_INTERVAL: _four,
    CONTENT_TYPE: string_end,
    RESPONSE_TOPIC: _response_topic,
    CORRELATION_DATA: field_end,
}
_AUTHENTICATION: Final = {AUTHENTICATION_METHOD: string_end, AUTHENTICATION_DATA: field_end}

IN_CONNECT: Final[PropertyRules] = MappingProxyType(
    {
        SESSION_EXPIRY_INTERVAL: _four,
        RECEIVE_MAXIMUM: _not_zero(_two),
        MAXIMUM_PACKET_SIZE: _not_zero(_four),
        TOPIC_ALIAS_MAXIMUM: _two,
        REQUEST_RESPONSE_INFORMATION: _flag,
        REQUEST_PROBLEM_INFORMATION: _flag,
        **_AUTHENTICATION,
    }
)
IN_WILL: Final[PropertyRules] = MappingProxyType({WILL_DELAY_INTERVAL: _four, **_MESSAGE})
# A subscription identifier belongs into a PUBLISH, but into the broker's alone (3.3.4): that is
# a protocol error, not a malformed packet.
IN_PUBLISH: Final[PropertyRules] = MappingProxyType(
    {TOPIC_ALIAS: _topic_alias, SUBSCRIPTION_IDENTIFIER: _broker_only, **_MESSAGE}
)
IN_ACKNOWLEDGEMENT: Final[PropertyRules] = MappingProxyType({REASON_STRING: string_end})
IN_SUBSCRIBE: Final[PropertyRules] = MappingProxyType({SUBSCRIPTION_IDENTIFIER: _not_zero(_varint)})
IN_UNSUBSCRIBE: Final[PropertyRules] = MappingProxyType({})
IN_DISCONNECT: Final[PropertyRules] = MappingProxyType(
    {SESSION_EXPIRY_INTERVAL: _four, REASON_STRING: string_end}
)
IN_AUTH: Final[PropertyRules] = MappingProxyType({REASON_STRING: string_end, **_AUTHENTICATION})


def read_properties(  # noqa: C901 - one loop without calls for each user property
    data: bytes, position: int, end: int, rules: PropertyRules, most_users: int
) -> PropertySection:
    """Check the property section at ``position`` in one pass.

    UserPropertyLimitError when it has more than ``most_users`` user properties.
    """
    length, position = read_varint(data, position, end)
    start, stop = position, position + length
    if stop > end:
        raise malformed("the properties are longer than what is left of their packet")
    found: list[Property] = []
    seen: set[int] = set()
    users = 0
    while position < stop:
        identifier = data[position]
        if identifier == USER_PROPERTY:
            users += 1
            if users > most_users:
                raise UserPropertyLimitError(most_users)
            # Written out here, because a packet may hold a thousand of them.
            name = position + 3
            value = name + 2
            if value <= stop:
                value += data[position + 1] << 8 | data[position + 2]
            if value > stop:
                raise malformed("a user property is cut off")
            after = value + (data[value - 2] << 8 | data[value - 1])
            if after > stop:
                raise malformed("a user property is cut off")
            texts = data[name : value - 2] + data[value:after]
            if not texts.isascii() or b"\0" in texts:
                check_text(data[name : value - 2])
                check_text(data[value:after])
            if value - name == _OWN_SIZE and texts[:4] in _OWN_NAMES:
                found.append(Property(identifier, position, after))
        else:
            reader = rules.get(identifier)
            if reader is None:
                raise malformed(f"property 0x{identifier:02x} does not belong into this packet")
            if identifier in seen:
                raise violation(f"property 0x{identifier:02x} stands twice")
            seen.add(identifier)
            after = reader(data, position + 1, stop)
            found.append(Property(identifier, position, after))
        position = after
    return PropertySection(found, start, stop, users)


def user_property_names(properties: bytes, most: int) -> list[str]:
    """Return the names of the first user properties of a message that was read before."""
    names: list[str] = []
    position, end = 0, len(properties)
    while position < end and len(names) < most:
        if properties[position] == USER_PROPERTY:
            value = string_end(properties, position + 1, end)
            names.append(properties[position + 3 : value].decode())
            position = string_end(properties, value, end)
        else:
            position = IN_PUBLISH[properties[position]](properties, position + 1, end)
    return names
