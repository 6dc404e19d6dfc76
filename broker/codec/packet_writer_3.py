"""Writes the packets of the broker for MQTT 3.1.1 and 3.1, other than PUBLISH.

These versions have no reason strings, and nearly no reason codes. What cannot be said is left
out: an acknowledgement says that the broker is done with a message, delivered or refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from broker.codec.fields import varint
from broker.codec.packet_writer import SUBACK, ConnackFields, UserProperties
from broker.codec.reason_codes import ReasonCode

# Return codes of CONNACK.
UNACCEPTABLE_VERSION: Final = 1
_IDENTIFIER_REJECTED: Final = 2
_SERVER_UNAVAILABLE: Final = 3
_BAD_LOGIN: Final = 4
_NOT_AUTHORIZED: Final = 5
_RETURN_CODES: Final[Mapping[int, int]] = MappingProxyType(
    {
        ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: UNACCEPTABLE_VERSION,
        ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: _IDENTIFIER_REJECTED,
        ReasonCode.BAD_USER_NAME_OR_PASSWORD: _BAD_LOGIN,
        ReasonCode.NOT_AUTHORIZED: _NOT_AUTHORIZED,
        ReasonCode.BANNED: _NOT_AUTHORIZED,
    }
)
# A CONNECT that is not valid is not answered (3.1.1: 3.1.4).
_UNANSWERED: Final = frozenset(
    (
        ReasonCode.MALFORMED_PACKET,
        ReasonCode.PROTOCOL_ERROR,
        ReasonCode.TOPIC_NAME_INVALID,
        ReasonCode.PACKET_TOO_LARGE,
    )
)
# SUBACK of MQTT 3.1.1.
_FAILURE: Final = 0x80


def connack_3(fields: ConnackFields) -> bytes:
    """Return the CONNACK of MQTT 3.1.1 that accepts a client."""
    return bytes((0x20, 2, fields.session_present, 0))


def connack_3_1(_fields: ConnackFields) -> bytes:
    """Return the CONNACK of MQTT 3.1, which does not tell whether there was a session."""
    return b"\x20\x02\x00\x00"


def connack_refusal_3(reason: ReasonCode, _text: str | None) -> bytes:
    """Return the CONNACK that refuses a client; empty when it is only closed."""
    if reason in _UNANSWERED:
        return b""
    return bytes((0x20, 2, 0, _RETURN_CODES.get(reason, _SERVER_UNAVAILABLE)))


def acknowledgement_3(
    kind: int, packet_id: int, _reason: int = 0, _text: str | None = None
) -> bytes:
    """Return PUBACK, PUBREC, PUBREL or PUBCOMP, which say nothing about success."""
    return bytes((kind, 2, packet_id >> 8, packet_id & 0xFF))


def suback_3(
    packet_id: int,
    codes: Sequence[int],
    _text: str | None,
    _properties: UserProperties,
) -> bytes:
    """Return SUBACK of MQTT 3.1.1 with one code for each filter."""
    granted = bytes([code if code <= 2 else _FAILURE for code in codes])
    return _with_codes(packet_id, granted)


def suback_3_1(
    packet_id: int,
    codes: Sequence[int],
    _text: str | None,
    _properties: UserProperties,
) -> bytes:
    """Return SUBACK of MQTT 3.1, which can only grant: a refused filter gets QoS 0."""
    return _with_codes(packet_id, bytes([code if code <= 2 else 0 for code in codes]))


def unsuback_3(
    packet_id: int,
    _codes: Sequence[int],
    _text: str | None,
    _properties: UserProperties,
) -> bytes:
    """Return UNSUBACK."""
    return bytes((0xB0, 2, packet_id >> 8, packet_id & 0xFF))


def refused_filters_3(
    kind: int,
    packet_id: int,
    _code: ReasonCode,
    count: int,
    _text: str | None,
) -> bytes:
    """Return SUBACK of MQTT 3.1.1 that refuses every filter, or UNSUBACK."""
    if kind != SUBACK:
        return unsuback_3(packet_id, (), None, ())
    return _with_codes(packet_id, bytes((_FAILURE,)) * count)


def refused_filters_3_1(
    kind: int,
    packet_id: int,
    _code: ReasonCode,
    count: int,
    _text: str | None,
) -> bytes:
    """Return SUBACK of MQTT 3.1 for filters that are refused, or UNSUBACK."""
    if kind != SUBACK:
        return unsuback_3(packet_id, (), None, ())
    return _with_codes(packet_id, bytes(count))


def _with_codes(packet_id: int, codes: bytes) -> bytes:
    return b"".join((bytes((SUBACK,)), varint(2 + len(codes)), packet_id.to_bytes(2, "big"), codes))


def no_disconnect(_reason: ReasonCode, _text: str | None) -> bytes:
    """Return nothing: a broker of these versions only closes."""
    return b""
