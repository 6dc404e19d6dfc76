"""Reads the control packets of MQTT 3.1.1 and 3.1, which have no properties and no reason codes.

The result has the form of MQTT 5, with the values of MQTT 5 that mean the same. MQTT 3.1 has no
rules for flags that it does not use, so they are ignored there.
"""

from __future__ import annotations

from typing import Final

import mqtt5

from broker.codec.fields import check_text, check_topic_name, field_end
from broker.codec.packet_reader import (
    PASSWORD,
    USER_NAME,
    WILL,
    WILL_QOS,
    WILL_RETAIN,
    Connect,
    WillFields,
    read_subscribe,
    read_unsubscribe,
)
from broker.codec.publish import MessageProperties, Publish
from broker.codec.reason_codes import ProtocolError, ReasonCode, malformed, violation

MQTT_3_1: Final = 3
_CLEAN_SESSION: Final = 0x02
# A session without "clean session" never expires by the standard; the broker's limit applies.
_NEVER: Final = 0xFFFF_FFFF
_MOST_PACKET_ID: Final = 0xFFFF


def read_connect_3(data: bytes, body: int, end: int, level: int) -> Connect:
    """Return the CONNECT of a client of protocol level 3 or 4."""
    position = field_end(data, body, end)
    if position + 4 > end:
        raise malformed("CONNECT is cut off")
    flags = data[position + 1]
    _check_flags(flags, level)
    keep_alive = data[position + 2] << 8 | data[position + 3]
    client_id, position = _text(data, position + 4, end)
    will: WillFields | None = None
    if flags & WILL:
        will, position = _will(data, position, end, flags)
    user_name: str | None = None
    password: bytes | None = None
    # In MQTT 3.1 the length of the packet decides whether these are there, not the flags.
    if flags & USER_NAME and not (level == MQTT_3_1 and position == end):
        user_name, position = _text(data, position, end)
    if flags & PASSWORD and not (level == MQTT_3_1 and position == end):
        start, position = position + 2, field_end(data, position, end)
        password = data[start:position]
    if position != end:
        raise malformed("CONNECT has bytes after its last field")
    is_clean = bool(flags & _CLEAN_SESSION)
    if not client_id and (level == MQTT_3_1 or not is_clean):
        text = "an empty client identifier needs MQTT 3.1.1 or 5, and clean session"
        raise ProtocolError(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, text)
    packet = mqtt5.ConnectPacket(
        client_id,
        username=user_name,
        password=password,
        clean_start=is_clean,
        keep_alive=keep_alive,
        session_expiry_interval=0 if is_clean else _NEVER,
        request_problem_info=False,
        receive_max=_MOST_PACKET_ID,
    )
    return Connect(packet, will)


def _check_flags(flags: int, level: int) -> None:
    if flags & WILL and flags & WILL_QOS == WILL_QOS:
        raise malformed("a will with QoS 3")
    if level == MQTT_3_1:
        return
    if flags & 0x01:
        raise malformed("the reserved flag of CONNECT is set")
    if not flags & WILL and flags & (WILL_QOS | WILL_RETAIN):
        raise malformed("will flags without a will")
    if flags & PASSWORD and not flags & USER_NAME:
        raise malformed("a password without a user name")


def _will(data: bytes, position: int, end: int, flags: int) -> tuple[WillFields, int]:
    topic, position = _text(data, position, end)
    check_topic_name(topic)
    start, position = position + 2, field_end(data, position, end)
    will = WillFields(
        topic=topic,
        payload=data[start:position],
        qos=(flags & WILL_QOS) >> 3,
        retain=bool(flags & WILL_RETAIN),
        delay=0,
        properties=MessageProperties(b""),
    )
    return will, position


def _text(data: bytes, position: int, end: int) -> tuple[str, int]:
    stop = field_end(data, position, end)
    return check_text(data[position + 2 : stop]), stop


def read_publish_3(data: bytes, first: int, body: int, end: int, _most_users: int) -> Publish:
    """Return the PUBLISH whose fixed header begins with ``first`` and whose body is given."""
    qos = first >> 1 & 3
    if qos == 3:
        raise malformed("QoS 3 does not exist")
    if first & 0x08 and not qos:
        raise malformed("a QoS 0 message cannot be a duplicate")
    position = field_end(data, body, end)
    topic = data[body + 2 : position]
    packet_id = 0
    if qos:
        packet_id = _packet_id(data, position, end)
        position += 2
    properties = MessageProperties(b"")
    return Publish(qos, bool(first & 0x01), topic, packet_id, properties, data[position:end])


def read_acknowledgement_3(
    data: bytes,
    body: int,
    end: int,
    _codes: frozenset[int],
    _most_users: int,
) -> tuple[int, int]:
    """Return the packet identifier of PUBACK, PUBREC, PUBREL or PUBCOMP, and success."""
    packet_id = _packet_id(data, body, end)
    if end != body + 2:
        raise malformed("an acknowledgement has bytes after its packet identifier")
    return packet_id, ReasonCode.SUCCESS


def read_subscribe_3(data: bytes, body: int, end: int, most_users: int) -> mqtt5.SubscribePacket:
    """Return the SUBSCRIBE in a body.

    It is that of MQTT 5 without properties, whose options have only a QoS.
    """
    same = _with_properties(data, body, end)
    packet = read_subscribe(same, 0, len(same), most_users)
    for one in packet.topic_filters:
        if one.no_local or one.retain_as_published or int(one.retain_handling):
            raise malformed("a requested QoS that does not exist")
    return packet


def read_unsubscribe_3(
    data: bytes, body: int, end: int, most_users: int
) -> mqtt5.UnsubscribePacket:
    """Return the UNSUBSCRIBE in a body."""
    same = _with_properties(data, body, end)
    return read_unsubscribe(same, 0, len(same), most_users)


def _with_properties(data: bytes, body: int, end: int) -> bytes:
    """Return a body with an empty property section after its packet identifier."""
    if body + 2 > end:
        raise malformed("the packet identifier is cut off")
    return b"".join((data[body : body + 2], b"\0", data[body + 2 : end]))


def read_disconnect_3(
    _data: bytes,
    body: int,
    end: int,
    _most_users: int,
) -> mqtt5.DisconnectPacket:
    """Return the DISCONNECT, which has no body."""
    if end > body:
        raise malformed("DISCONNECT with a body")
    return mqtt5.DisconnectPacket()


def check_auth_3(_data: bytes, _body: int, _end: int, _most_users: int) -> None:
    """Refuse AUTH, which older versions do not have."""
    raise malformed("AUTH belongs to MQTT 5")


def _packet_id(data: bytes, position: int, end: int) -> int:
    if position + 2 > end:
        raise malformed("the packet identifier is cut off")
    packet_id = data[position] << 8 | data[position + 1]
    if not packet_id:
        raise violation("the packet identifier is 0")
    return packet_id
