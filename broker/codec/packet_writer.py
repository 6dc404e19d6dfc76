"""Writes the packets of MQTT 5 other than PUBLISH, with the ``mqtt5`` package.

Acknowledgements without reasons are written by hand: they are most of what the broker sends
under QoS 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import mqtt5

from broker.codec.fields import varint
from broker.codec.reason_codes import ReasonCode

PINGRESP: Final = b"\xd0\x00"

PUBACK: Final = 0x40
PUBREC: Final = 0x50
PUBREL: Final = 0x62
PUBCOMP: Final = 0x70
SUBACK: Final = 0x90
UNSUBACK: Final = 0xB0

# Enough for every reason string of the broker, and too few to make a packet large.
MAX_REASON_CHARACTERS: Final = 1_000

UserProperties = Sequence[tuple[str, str]]
Code = TypeVar(
    "Code",
    mqtt5.ConnAckReasonCode,
    mqtt5.SubAckReasonCode,
    mqtt5.UnsubAckReasonCode,
    mqtt5.DisconnectReasonCode,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnackFields:
    """The fields of CONNACK for an accepted client beyond the reason code."""

    session_present: bool
    receive_maximum: int
    maximum_packet_size: int
    topic_alias_maximum: int
    session_expiry: int | None = None
    assigned_client_id: str | None = None
    server_keep_alive: int | None = None
    response_information: str | None = None


def connack(fields: ConnackFields) -> bytes:
    """Return the CONNACK that accepts a client."""
    return mqtt5.ConnAckPacket(
        session_present=fields.session_present,
        session_expiry_interval=fields.session_expiry,
        assigned_client_id=fields.assigned_client_id,
        server_keep_alive=fields.server_keep_alive,
        response_info=fields.response_information,
        receive_max=fields.receive_maximum,
        max_packet_size=fields.maximum_packet_size,
        topic_alias_max=fields.topic_alias_maximum,
    ).write()


def connack_refusal(reason: ReasonCode, text: str | None) -> bytes:
    """Return the CONNACK that refuses a client."""
    return mqtt5.ConnAckPacket(
        reason_code=fitting(mqtt5.ConnAckReasonCode, reason), reason_str=shortened(text)
    ).write()


def acknowledgement(kind: int, packet_id: int, reason: int = 0, text: str | None = None) -> bytes:
    """Return PUBACK, PUBREC, PUBREL or PUBCOMP."""
    if not reason:
        return bytes((kind, 2, packet_id >> 8, packet_id & 0xFF))
    if not text:
        return bytes((kind, 3, packet_id >> 8, packet_id & 0xFF, reason))
    text = shortened(text)
    if kind == PUBACK:
        code = mqtt5.PubAckReasonCode(reason)
        return mqtt5.PubAckPacket(packet_id, reason_code=code, reason_str=text).write()
    return mqtt5.PubRecPacket(
        packet_id, reason_code=mqtt5.PubRecReasonCode(reason), reason_str=text
    ).write()


def suback(
    packet_id: int, codes: Sequence[int], text: str | None, properties: UserProperties
) -> bytes:
    """Return SUBACK with one code for each filter."""
    return mqtt5.SubAckPacket(
        packet_id,
        [fitting(mqtt5.SubAckReasonCode, code) for code in codes],
        reason_str=shortened(text),
        user_properties=list(properties),
    ).write()


def unsuback(
    packet_id: int, codes: Sequence[int], text: str | None, properties: UserProperties
) -> bytes:
    """Return UNSUBACK with one code for each filter."""
    return mqtt5.UnsubAckPacket(
        packet_id,
        [fitting(mqtt5.UnsubAckReasonCode, code) for code in codes],
        reason_str=shortened(text),
        user_properties=list(properties),
    ).write()


def refused_filters(
    kind: int, packet_id: int, code: ReasonCode, count: int, text: str | None
) -> bytes:
    """Return SUBACK or UNSUBACK that refuses every filter; many filters cost hardly more."""
    properties = b""
    if text is not None:
        encoded = text.encode()
        properties = b"\x1f" + len(encoded).to_bytes(2, "big") + encoded
    body = b"".join(
        (packet_id.to_bytes(2, "big"), varint(len(properties)), properties, bytes((code,)) * count)
    )
    return bytes((kind,)) + varint(len(body)) + body


def disconnect(reason: ReasonCode, text: str | None) -> bytes:
    """Return the DISCONNECT of the broker."""
    return mqtt5.DisconnectPacket(
        reason_code=fitting(mqtt5.DisconnectReasonCode, reason), reason_str=shortened(text)
    ).write()


def fitting(kind: type[Code], reason: int) -> Code:
    """Return the reason code if it is valid in this packet, else "unspecified error"."""
    try:
        return kind(int(reason))
    except ValueError:
        return kind(int(ReasonCode.UNSPECIFIED_ERROR))


def shortened(text: str | None) -> str | None:
    """Return a text, cut to the length of a reason string."""
    if text is None or len(text) <= MAX_REASON_CHARACTERS:
        return text
    return text[: MAX_REASON_CHARACTERS - 1] + "…"
