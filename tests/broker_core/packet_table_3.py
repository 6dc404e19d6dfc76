"""The table of named packets of MQTT 3.1.1 and 3.1: what a client may send, and what may not be.

``closes``: the connection ends, with nothing said. ``answer`` is the first packet that comes back.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.broker_core import encode
from tests.broker_core.encode import ack, packet, text
from tests.broker_core.mqtt3 import (
    Acknowledged,
    Connack,
    Packet3,
    Pong,
    Suback,
    connect,
    publish,
    subscribe,
    unsubscribe,
)


@dataclass(frozen=True)
class Case3:
    name: str
    data: bytes
    closes: bool = False
    answer: Packet3 | None = None

    def __str__(self) -> str:
        return self.name


LET_IN = Connack(0)
LOGIN = text("user") + text("secret")
WILL = text("gone") + text("bye")

# Sent as the first packet.
FIRST_3 = [
    Case3("connect", connect(), answer=LET_IN),
    Case3("connect, 3.1", connect(level=3), answer=LET_IN),
    Case3("connect without clean session", connect(flags=0), answer=LET_IN),
    Case3("connect without a client id", connect(""), answer=LET_IN),
    Case3("connect, a long client id", connect("c" * 200), answer=LET_IN),
    Case3("connect, 3.1, a long client id", connect("c" * 200, level=3), answer=LET_IN),
    Case3(
        "connect, neither client id nor clean session",
        connect("", flags=0), closes=True, answer=Connack(2),
    ),
    Case3("connect, 3.1, no client id", connect("", level=3), closes=True, answer=Connack(2)),
    Case3("connect, client id over our limit", connect("c" * 300), closes=True, answer=Connack(2)),
    Case3("connect with login", connect(flags=0xC2, rest=LOGIN), answer=LET_IN),
    Case3("connect with a user name alone", connect(flags=0x82, rest=text("u")), answer=LET_IN),
    Case3("connect with will", connect(flags=0x2E, rest=WILL), answer=LET_IN),
    Case3("connect, 3.1, with will", connect(level=3, flags=0x2E, rest=WILL), answer=LET_IN),
    Case3(
        "connect with will and login",
        connect(flags=0xF6, rest=WILL + LOGIN), answer=LET_IN,
    ),
    Case3("connect, 3.1, flags without fields", connect(level=3, flags=0xC2), answer=LET_IN),
    Case3(
        "connect, 3.1, password missing",
        connect(level=3, flags=0xC2, rest=text("u")), answer=LET_IN,
    ),
    Case3("connect, 3.1, reserved flag", connect(level=3, flags=0x03), answer=LET_IN),
    Case3("connect, will for $SYS", connect(flags=6, rest=text("$SYS/x") + text("")), closes=True,
          answer=Connack(5)),
    Case3(
        "connect, level 3 as MQTT",
        connect(level=3, name=b"MQTT"), closes=True, answer=Connack(1),
    ),
    Case3("connect, level 4 as MQIsdp", connect(name=b"MQIsdp"), closes=True, answer=Connack(1)),
    Case3("connect, a bridge", b"\x10\x0d\x00\x04MQTT\x84\x02\x00\x3c\x00\x01c", closes=True,
          answer=Connack(1)),
    Case3("connect, reserved flag", connect(flags=0x03), closes=True),
    Case3("connect, will QoS 3", connect(flags=0x1E, rest=WILL), closes=True),
    Case3("connect, 3.1, will QoS 3", connect(level=3, flags=0x1E, rest=WILL), closes=True),
    Case3("connect, will QoS without will", connect(flags=0x0A), closes=True),
    Case3("connect, will retain without will", connect(flags=0x22), closes=True),
    Case3("connect, password without user", connect(flags=0x42, rest=text("p")), closes=True),
    Case3("connect without its user name", connect(flags=0x82), closes=True),
    Case3("connect without its will", connect(flags=0x06), closes=True),
    Case3("connect goes on", connect(rest=b"x"), closes=True),
    Case3("connect, no client id field", packet(0x10, text("MQTT") + b"\4\2\0\x3c"), closes=True),
    Case3("connect, no keep alive", packet(0x10, text("MQTT") + b"\4\2\0"), closes=True),
    Case3("connect, wild will", connect(flags=6, rest=text("a/#") + text("")), closes=True),
    Case3("connect, will without topic", connect(flags=6, rest=text("") + text("")), closes=True),
    Case3("connect, client id not UTF-8", connect(b"\xff"), closes=True),
    Case3("connect, client id with U+0000", connect("a\0"), closes=True),
]  # fmt: skip

# Sent by a client of MQTT 3.1.1 at work.
AT_WORK_3 = [
    Case3("ping", encode.PINGREQ, answer=Pong()),
    Case3("ping with a body", b"\xc0\x01x", closes=True),
    Case3("publish", publish("a/b", b"payload")),
    Case3("publish, what would be properties", publish("a/b", b"\x05\x26\x00\x01a\x00")),
    Case3("publish nothing", publish("t")),
    Case3("publish retained", publish("t", b"x", retain=True)),
    Case3("publish QoS 1", publish("t", b"x", qos=1, packet_id=1), answer=Acknowledged(0x40, 1)),
    Case3("publish QoS 2", publish("t", b"x", qos=2, packet_id=2), answer=Acknowledged(0x50, 2)),
    Case3(
        "publish again",
        publish("t", b"x", qos=1, packet_id=1, duplicate=True), answer=Acknowledged(0x40, 1),
    ),
    Case3("publish for $SYS", publish("$SYS/x", qos=1, packet_id=9), answer=Acknowledged(0x40, 9)),
    Case3("publish, QoS 3", publish(qos=3, packet_id=1), closes=True),
    Case3("publish QoS 0, duplicate", publish(duplicate=True), closes=True),
    Case3("publish, packet id 0", publish(qos=1, packet_id=0), closes=True),
    Case3("publish, no packet id", packet(0x32, text("t") + b"\0"), closes=True),
    Case3("publish, empty topic", publish(""), closes=True),
    Case3("publish, topic with #", publish("a/#"), closes=True),
    Case3("publish, topic with +", publish("+"), closes=True),
    Case3("publish, topic with U+0000", publish("a\0"), closes=True),
    Case3("publish, topic not UTF-8", publish(b"\xc3"), closes=True),
    Case3("publish, topic longer than the packet", packet(0x30, b"\0\x09t"), closes=True),
    Case3("publish, topic cut off", packet(0x30, b"\0"), closes=True),
    Case3("subscribe", subscribe(("a/+/#", 2)), answer=Suback(1, (2,))),
    Case3(
        "subscribe, many filters",
        subscribe(("a", 0), ("b", 1), ("c", 2)), answer=Suback(1, (0, 1, 2)),
    ),
    Case3("subscribe, shared", subscribe(("$share/g/a", 1)), answer=Suback(1, (1,))),
    Case3(
        "subscribe, a wrong filter",
        subscribe(("a", 1), ("a/#/b", 1)), answer=Suback(1, (1, 0x80)),
    ),
    Case3("subscribe, no filter", subscribe(), closes=True),
    Case3("subscribe, empty filter", subscribe(("", 0)), closes=True),
    Case3("subscribe, QoS 3", subscribe(("a", 3)), closes=True),
    Case3("subscribe, options of MQTT 5", subscribe(("a", 4)), closes=True),
    Case3("subscribe without QoS", packet(0x82, b"\0\1" + text("a")), closes=True),
    Case3("subscribe, packet id 0", subscribe(("a", 0), packet_id=0), closes=True),
    Case3("subscribe, flags", b"\x80" + subscribe(("a", 0))[1:], closes=True),
    Case3("subscribe, filter with U+0000", subscribe(("a\0", 0)), closes=True),
    Case3("unsubscribe", unsubscribe("a", "b"), answer=Acknowledged(0xB0, 1)),
    Case3("unsubscribe, no filter", unsubscribe(), closes=True),
    Case3("unsubscribe, empty filter", unsubscribe("a", ""), closes=True),
    Case3("unsubscribe, flags", b"\xa0" + unsubscribe("a")[1:], closes=True),
    Case3("puback for nothing", ack(0x40, 9)),
    Case3("puback with a code", ack(0x40, 9, b"\0"), closes=True),
    Case3("puback too short", packet(0x40, b"\0"), closes=True),
    Case3("puback, packet id 0", ack(0x40, 0), closes=True),
    Case3("puback, flags", ack(0x42, 9), closes=True),
    Case3("pubrec for nothing", ack(0x50, 9), answer=Acknowledged(0x62, 9)),
    Case3("pubrel for nothing", ack(0x62, 9), answer=Acknowledged(0x70, 9)),
    Case3("pubrel with a code", ack(0x62, 9, b"\0"), closes=True),
    Case3("pubrel, flags", ack(0x60, 9), closes=True),
    Case3("pubcomp for nothing", ack(0x70, 9)),
    Case3("auth", b"\xf0\x00", closes=True),
    Case3("connect again", connect(), closes=True),
    Case3("connack", b"\x20\x02\x00\x00", closes=True),
    Case3("suback", b"\x90\x03\x00\x01\x00", closes=True),
    Case3("pingresp", b"\xd0\x00", closes=True),
    Case3("type 0", b"\x00\x00", closes=True),
    Case3("disconnect", encode.DISCONNECT, closes=True),
    Case3("disconnect with a body", b"\xe0\x01\x00", closes=True),
    Case3("disconnect, flags", b"\xe1\x00", closes=True),
    Case3("length of five bytes", b"\x30\xff\xff\xff\xff\x01", closes=True),
    Case3("a packet over the limit", b"\x30\xff\xff\xff\x7f", closes=True),
]  # fmt: skip
