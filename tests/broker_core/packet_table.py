"""The table of named packets: one line for each thing a client may send, or may not.

It drives the tests of codec, core and server. ``reason`` is what the connection ends with;
None: the packet is legal. ``answer`` is the type of the first packet that comes back.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.broker_core import encode
from tests.broker_core.encode import (
    ack,
    connect,
    packet,
    publish,
    subscribe,
    text,
    unsubscribe,
    user,
)

MALFORMED = 0x81
PROTOCOL_ERROR = 0x82
UNSUPPORTED_VERSION = 0x84
BAD_METHOD = 0x8C
TOPIC_INVALID = 0x90
ALIAS_INVALID = 0x94
TOO_LARGE = 0x95


@dataclass(frozen=True)
class Case:
    name: str
    data: bytes
    reason: int | None = None
    answer: str | None = None

    def __str__(self) -> str:
        return self.name


WILL = encode.will("gone", b"bye")
LOGIN = text("user") + text("secret")

# Sent as the first packet.
FIRST = [
    Case("connect", connect(), None, "ConnAckPacket"),
    Case("connect without a client id", connect(""), None, "ConnAckPacket"),
    Case("connect with login", connect(flags=0xC2, rest=LOGIN), None, "ConnAckPacket"),
    Case(
        "connect, password alone",
        connect(flags=0x42, rest=text("secret")), None, "ConnAckPacket",
    ),
    Case("connect with will", connect(flags=0x2E, rest=WILL), None, "ConnAckPacket"),
    Case(
        "connect with will and its properties",
        connect(
            flags=0x06,
            rest=encode.will(
                "gone", b"",
                b"\x18\x00\x00\x00\x05\x01\x01\x02\x00\x00\x00\x09" + user("peid", "7"),
            ),
        ),
        None,
        "ConnAckPacket",
    ),
    Case(
        "connect with every property",
        connect(
            properties=b"\x11\x00\x00\x00\x09\x21\x00\x05\x27\x00\x00\x10\x00\x22\x00\x03"
            b"\x19\x01\x17\x01"
            + user("a", "b") + user("a", "b"),
        ),
        None,
        "ConnAckPacket",
    ),
    Case("connect, reserved flag", connect(flags=0x03), MALFORMED),
    Case("connect, will QoS 3", connect(flags=0x1E, rest=WILL), MALFORMED),
    Case("connect, will QoS without will", connect(flags=0x0A), MALFORMED),
    Case("connect, will retain without will", connect(flags=0x22), MALFORMED),
    Case("connect, other protocol name", connect(name=b"MQTX"), UNSUPPORTED_VERSION),
    Case("connect, version 6", connect(version=6), UNSUPPORTED_VERSION),
    Case("connect goes on", connect(rest=b"xx"), MALFORMED),
    Case("connect without its user name", connect(flags=0x82), MALFORMED),
    Case("connect, receive maximum 0", connect(properties=b"\x21\x00\x00"), PROTOCOL_ERROR),
    Case("connect, packet size 0", connect(properties=b"\x27\x00\x00\x00\x00"), PROTOCOL_ERROR),
    Case(
        "connect, property twice",
        connect(properties=b"\x21\x00\x05\x21\x00\x05"), PROTOCOL_ERROR,
    ),
    Case("connect, property of PUBLISH", connect(properties=b"\x23\x00\x01"), MALFORMED),
    Case("connect, unknown property", connect(properties=b"\x7f\x00"), MALFORMED),
    Case("connect, flag property 2", connect(properties=b"\x17\x02"), PROTOCOL_ERROR),
    Case("connect, property cut off", connect(properties=b"\x21\x00"), MALFORMED),
    Case("connect, data without method", connect(properties=b"\x16" + text("x")), PROTOCOL_ERROR),
    Case("connect, method", connect(properties=b"\x15" + text("x")), BAD_METHOD),
    Case("connect, client id not UTF-8", connect(b"\xff\xfe"), MALFORMED),
    Case("connect, client id a surrogate", connect(b"\xed\xa0\x80"), MALFORMED),
    Case("connect, client id overlong", connect(b"\xc0\x80"), MALFORMED),
    Case("connect, client id with U+0000", connect("a\0b"), MALFORMED),
    Case(
        "connect, will with wildcard",
        connect(flags=0x06, rest=encode.will("a/#", b"")), TOPIC_INVALID,
    ),
    Case(
        "connect, will without topic",
        connect(flags=0x06, rest=encode.will("", b"")), PROTOCOL_ERROR,
    ),
    Case(
        "connect, will with an alias",
        connect(flags=0x06, rest=encode.will("t", b"", b"\x23\x00\x01")),
        MALFORMED,
    ),
    Case(
        "connect, will peid no number",
        connect(flags=0x06, rest=encode.will("t", b"", user("peid", "x"))), 0x83,
    ),
    Case("connect, will for $SYS", connect(flags=0x06, rest=encode.will("$SYS/x", b"")), 0x87),
]  # fmt: skip

# Sent by a client at work.
AT_WORK = [
    Case("ping", encode.PINGREQ, None, "PingRespPacket"),
    Case("ping with a body", b"\xc0\x01x", MALFORMED),
    Case("ping with flags", b"\xc1\x00", MALFORMED),
    Case("publish", publish("a/b", b"payload")),
    Case("publish without payload", publish("a/b")),
    Case("publish QoS 1", publish("a/b", b"x", qos=1, packet_id=1), None, "PubAckPacket"),
    Case("publish QoS 2", publish("a/b", b"x", qos=2, packet_id=1), None, "PubRecPacket"),
    Case(
        "publish QoS 1, duplicate",
        publish(qos=1, packet_id=7, duplicate=True), None, "PubAckPacket",
    ),
    Case("publish retained", publish("a/b", b"x", retain=True)),
    Case("publish with peid", publish("a/b", b"x", properties=user("peid", "4711"))),
    Case("publish with peid 0", publish("a/b", b"x", properties=user("peid", "0"))),
    Case("publish with the largest peid", publish(properties=user("peid", str(2**63 - 1)))),
    Case(
        "publish with peid beyond",
        publish(qos=1, packet_id=3, properties=user("peid", str(2**63))), None, "PubAckPacket",
    ),
    Case("publish with two peids", publish(properties=user("peid", "1") + user("peid", "2"))),
    Case("publish with peid no number", publish(properties=user("peid", "-1"))),
    Case(
        "publish with every property",
        publish(
            "t", b"x",
            properties=b"\x01\x00\x02\x00\x00\x00\x3c\x23\x00\x02\x08" + text("r") + b"\x09"
            + text(b"\xff") + user("a", "b") + b"\x03" + text("c"),
        ),
    ),
    Case("publish, a long topic", publish("a" * 65_535, b"x")),
    Case("publish, QoS 3", publish(qos=3, packet_id=1), MALFORMED),
    Case("publish QoS 0, duplicate", publish(duplicate=True), MALFORMED),
    Case("publish, packet id 0", publish(qos=1, packet_id=0), PROTOCOL_ERROR),
    Case("publish, empty topic", publish(""), PROTOCOL_ERROR),
    Case("publish, topic with +", publish("a/+"), TOPIC_INVALID),
    Case("publish, topic with #", publish("#"), TOPIC_INVALID),
    Case("publish, topic with U+0000", publish("a\0"), MALFORMED),
    Case("publish, topic not UTF-8", publish(b"\xc3"), MALFORMED),
    Case("publish, topic longer than the packet", packet(0x30, b"\x00\x09t\x00"), MALFORMED),
    Case("publish, no properties", packet(0x30, text("t")), MALFORMED),
    Case(
        "publish, properties longer than the packet",
        packet(0x30, text("t") + b"\x05"), MALFORMED,
    ),
    Case("publish, expiry twice", publish(properties=b"\x02\x00\x00\x00\x01" * 2), PROTOCOL_ERROR),
    Case("publish, payload format 2", publish(properties=b"\x01\x02"), PROTOCOL_ERROR),
    Case("publish, alias 0", publish(properties=b"\x23\x00\x00"), ALIAS_INVALID),
    Case("publish, alias too high", publish(properties=b"\x23\xff\xff"), ALIAS_INVALID),
    Case("publish, alias unknown", publish("", properties=b"\x23\x00\x01"), PROTOCOL_ERROR),
    Case("publish, subscription identifier", publish(properties=b"\x0b\x01"), PROTOCOL_ERROR),
    Case("publish, identifier cut off", publish(properties=b"\x0b\x81"), MALFORMED),
    Case("publish, response topic empty", publish(properties=b"\x08" + text("")), PROTOCOL_ERROR),
    Case("publish, response topic wild", publish(properties=b"\x08" + text("a/#")), PROTOCOL_ERROR),
    Case("publish, property of CONNECT", publish(properties=b"\x21\x00\x01"), MALFORMED),
    Case("publish, user property with U+0000", publish(properties=user("a", "\0")), MALFORMED),
    Case("publish, user property not UTF-8", publish(properties=user(b"\xff", "")), MALFORMED),
    Case("publish, user property cut off", publish(properties=user("a", "bcd")[:-1]), MALFORMED),
    Case("publish, peid cut off", publish(properties=user("peid", "4711")[:-1]), MALFORMED),
    Case("subscribe", subscribe(("a/+/#", 0x02)), None, "SubAckPacket"),
    Case(
        "subscribe, many filters",
        subscribe(("a", 0), ("b", 0x2D), ("c", 0x12)), None, "SubAckPacket",
    ),
    Case("subscribe, shared", subscribe(("$share/g/a", 1)), None, "SubAckPacket"),
    Case(
        "subscribe, identifier",
        subscribe(("a", 1), properties=b"\x0b\x80\x01"), None, "SubAckPacket",
    ),
    Case("subscribe, a+/b", subscribe(("a+/b", 0)), None, "SubAckPacket"),
    Case("subscribe, #/a", subscribe(("#/a", 0)), None, "SubAckPacket"),
    Case("subscribe, empty filter", subscribe(("a", 0), ("", 0)), MALFORMED),
    Case("subscribe, shared empty filter", subscribe(("$share/g/", 0)), None, "SubAckPacket"),
    Case("subscribe, $share without filter", subscribe(("$share/g", 0)), None, "SubAckPacket"),
    Case("subscribe, 32,000 levels", subscribe(("/" * 32_000, 0)), None, "SubAckPacket"),
    Case("subscribe, no filter", subscribe(), PROTOCOL_ERROR),
    Case("subscribe, flags", b"\x80" + subscribe(("a", 0))[1:], MALFORMED),
    Case("subscribe, packet id 0", subscribe(("a", 0), packet_id=0), PROTOCOL_ERROR),
    Case("subscribe, QoS 3", subscribe(("a", 3)), MALFORMED),
    Case("subscribe, retain handling 3", subscribe(("a", 0x30)), MALFORMED),
    Case("subscribe, reserved option", subscribe(("a", 0x40)), MALFORMED),
    Case("subscribe, options missing", packet(0x82, b"\x00\x01\x00" + text("a")), MALFORMED),
    Case("subscribe, filter with U+0000", subscribe(("a\0", 0)), MALFORMED),
    Case("subscribe, identifier 0", subscribe(("a", 0), properties=b"\x0b\x00"), PROTOCOL_ERROR),
    Case(
        "subscribe, identifier twice",
        subscribe(("a", 0), properties=b"\x0b\x01\x0b\x02"), PROTOCOL_ERROR,
    ),
    Case("subscribe, shared and no-local", subscribe(("$share/g/a", 0x04)), PROTOCOL_ERROR),
    Case("unsubscribe", unsubscribe("a", "b"), None, "UnsubAckPacket"),
    Case("unsubscribe, empty filter", unsubscribe("a", ""), MALFORMED),
    Case("unsubscribe, no filter", unsubscribe(), PROTOCOL_ERROR),
    Case("unsubscribe, identifier", unsubscribe("a", properties=b"\x0b\x01"), MALFORMED),
    Case("unsubscribe, flags", b"\xa0" + unsubscribe("a")[1:], MALFORMED),
    Case("puback for nothing", ack(0x40, 9)),
    Case("puback, code and properties", ack(0x40, 9, b"\x97\x04\x1f" + text("x"))),
    Case("puback, packet id 0", ack(0x40, 0), PROTOCOL_ERROR),
    Case("puback, flags", ack(0x42, 9), MALFORMED),
    Case("puback, unknown code", ack(0x40, 9, b"\x05"), MALFORMED),
    Case("puback too short", packet(0x40, b"\x00"), MALFORMED),
    Case("puback goes on", ack(0x40, 9, b"\x00\x00zz"), MALFORMED),
    Case(
        "puback, reason twice",
        ack(0x40, 9, b"\x00\x06" + (b"\x1f" + text("")) * 2), PROTOCOL_ERROR,
    ),
    Case("pubrec for nothing", ack(0x50, 9), None, "PubRelPacket"),
    Case("pubrel for nothing", ack(0x62, 9), None, "PubCompPacket"),
    Case("pubrel, flags", ack(0x60, 9), MALFORMED),
    Case("pubrel, code of PUBACK", ack(0x62, 9, b"\x10"), MALFORMED),
    Case("pubcomp for nothing", ack(0x70, 9)),
    Case("auth", b"\xf0\x00", PROTOCOL_ERROR),
    Case("auth with method", packet(0xF0, b"\x18\x04\x15" + text("a")), PROTOCOL_ERROR),
    Case("auth, broken", packet(0xF0, b"\x18\x04\x15\x00\x09a"), MALFORMED),
    Case("connect again", connect(), PROTOCOL_ERROR),
    Case("connack", b"\x20\x03\x00\x00\x00", PROTOCOL_ERROR),
    Case("suback", b"\x90\x04\x00\x01\x00\x00", PROTOCOL_ERROR),
    Case("unsuback", b"\xb0\x04\x00\x01\x00\x00", PROTOCOL_ERROR),
    Case("pingresp", b"\xd0\x00", PROTOCOL_ERROR),
    Case("type 0", b"\x00\x00", MALFORMED),
    Case("disconnect, unknown code", b"\xe0\x01\x01", MALFORMED),
    Case("disconnect, flags", b"\xe1\x00", MALFORMED),
    Case("disconnect, server reference", packet(0xE0, b"\x00\x04\x1c" + text("a")), MALFORMED),
    Case(
        "disconnect, expiry out of nothing",
        packet(0xE0, b"\x00\x05\x11\x00\x00\x00\x05"), PROTOCOL_ERROR,
    ),
    Case("length of five bytes", b"\x30\xff\xff\xff\xff\x01", MALFORMED),
    Case("length longer than needed", b"\xc0\x80\x00", MALFORMED),
    Case("a packet over the limit", b"\x30\xff\xff\xff\x7f", TOO_LARGE),
]  # fmt: skip
