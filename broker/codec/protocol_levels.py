"""The versions of MQTT that are served: what reads and writes packets of each.

A connection has the codec of its CONNECT. Everything else in the broker works with the terms of
MQTT 5, and does not ask for the version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, TypeAlias

import mqtt5

from broker.codec import packet_reader, packet_reader_3, packet_writer, packet_writer_3, publish
from broker.codec.fields import field_end
from broker.codec.packet_writer import ConnackFields, UserProperties
from broker.codec.publish import Publish
from broker.codec.reason_codes import (
    OldProtocolError,
    ProtocolError,
    ReasonCode,
    malformed,
)

ReadPublish: TypeAlias = Callable[[bytes, int, int, int, int], Publish]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codec:
    """The readers take the bytes and the limit of user properties, the writers the fields.

    ``has_properties`` is true for MQTT 5 alone, and stands for everything that came with it.
    """

    name: str
    level: int
    has_properties: bool
    read_publish: ReadPublish
    read_acknowledgement: Callable[[bytes, int, int, frozenset[int], int], tuple[int, int]]
    read_subscribe: Callable[[bytes, int, int, int], mqtt5.SubscribePacket]
    read_unsubscribe: Callable[[bytes, int, int, int], mqtt5.UnsubscribePacket]
    read_disconnect: Callable[[bytes, int, int, int], mqtt5.DisconnectPacket]
    check_auth: Callable[[bytes, int, int, int], None]
    connack: Callable[[ConnackFields], bytes]
    # Empty where the version has no such packet, or forbids it.
    connack_refusal: Callable[[ReasonCode, str | None], bytes]
    disconnect: Callable[[ReasonCode, str | None], bytes]
    # Packet type, identifier, reason, reason string.
    acknowledgement: Callable[[int, int, int, str | None], bytes]
    suback: Callable[[int, Sequence[int], str | None, UserProperties], bytes]
    unsuback: Callable[[int, Sequence[int], str | None, UserProperties], bytes]
    refused_filters: Callable[[int, int, ReasonCode, int, str | None], bytes]
    # First bytes of repeated packets that only this version has, and of the packets they repeat.
    repeated: Mapping[int, int] = field(default_factory=dict)


MQTT_5: Final = Codec(
    name="MQTT 5",
    level=5,
    has_properties=True,
    read_publish=publish.read_publish,
    read_acknowledgement=packet_reader.read_acknowledgement,
    read_subscribe=packet_reader.read_subscribe,
    read_unsubscribe=packet_reader.read_unsubscribe,
    read_disconnect=packet_reader.read_disconnect,
    check_auth=packet_reader.check_auth,
    connack=packet_writer.connack,
    connack_refusal=packet_writer.connack_refusal,
    disconnect=packet_writer.disconnect,
    acknowledgement=packet_writer.acknowledgement,
    suback=packet_writer.suback,
    unsuback=packet_writer.unsuback,
    refused_filters=packet_writer.refused_filters,
)
MQTT_3_1_1: Final = Codec(
    name="MQTT 3.1.1",
    level=4,
    has_properties=False,
    read_publish=packet_reader_3.read_publish_3,
    read_acknowledgement=packet_reader_3.read_acknowledgement_3,
    read_subscribe=packet_reader_3.read_subscribe_3,
    read_unsubscribe=packet_reader_3.read_unsubscribe_3,
    read_disconnect=packet_reader_3.read_disconnect_3,
    check_auth=packet_reader_3.check_auth_3,
    connack=packet_writer_3.connack_3,
    connack_refusal=packet_writer_3.connack_refusal_3,
    disconnect=packet_writer_3.no_disconnect,
    acknowledgement=packet_writer_3.acknowledgement_3,
    suback=packet_writer_3.suback_3,
    unsuback=packet_writer_3.unsuback_3,
    refused_filters=packet_writer_3.refused_filters_3,
)
MQTT_3_1: Final = replace(
    MQTT_3_1_1,
    name="MQTT 3.1",
    level=3,
    connack=packet_writer_3.connack_3_1,
    suback=packet_writer_3.suback_3_1,
    refused_filters=packet_writer_3.refused_filters_3_1,
    repeated=MappingProxyType({0x6A: 0x62, 0x8A: 0x82, 0xAA: 0xA2}),
)

_CODECS: Final = {(b"MQTT", 5): MQTT_5, (b"MQTT", 4): MQTT_3_1_1, (b"MQIsdp", 3): MQTT_3_1}
_OLD_NAME: Final = b"MQIsdp"
# Bridges set the highest bit of the level.
_LEVEL: Final = 0x7F


def codec_of(data: bytes, body: int, end: int) -> Codec:
    """Return the codec for the CONNECT in a body.

    ProtocolError when no such version is served; OldProtocolError when the client reads only the
    CONNACK of older versions.
    """
    position = field_end(data, body, end)
    if position == end:
        raise malformed("CONNECT is cut off")
    name, level = data[body + 2 : position], data[position]
    codec = _CODECS.get((name, level))
    if codec is not None:
        return codec
    text = "this protocol is not served, only MQTT 5, 3.1.1 and 3.1"
    if name == _OLD_NAME or (name == b"MQTT" and level & _LEVEL < MQTT_5.level):
        raise OldProtocolError(text)
    raise ProtocolError(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, text)
