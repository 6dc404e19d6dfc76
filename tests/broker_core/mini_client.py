"""A client that keeps to the protocol: it remembers what it must, and repeats what it must."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import mqtt5

from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

EXPIRY = b"\x11\x00\x00\x0e\x10"
PUBACK, PUBREC, PUBREL, PUBCOMP = 0x40, 0x50, 0x62, 0x70


@dataclass(frozen=True)
class Message:
    """What a client publishes; the payload names it."""

    topic: str
    payload: bytes
    qos: int
    peid: int | None

    def packet(self, packet_id: int, *, duplicate: bool = False) -> bytes:
        return encode.publish(
            self.topic,
            self.payload,
            qos=self.qos,
            packet_id=packet_id if self.qos else None,
            duplicate=duplicate,
            properties=b"" if self.peid is None else encode.user("peid", str(self.peid)),
        )


@dataclass(eq=False)
class MiniClient:
    """Its memory outlives connections and brokers."""

    name: str
    link: Client | None = None
    # Payloads in the order in which the application got them, with the QoS they came with.
    log: list[tuple[bytes, int]] = field(default_factory=list)
    acknowledged: set[bytes] = field(default_factory=set)
    had_connack: bool = False
    # Whether CONNACK of the present connection was read: before it, what is published would be
    # taken for something to repeat.
    is_ready: bool = False
    _received: set[int] = field(default_factory=set)
    _unacknowledged: dict[int, Message] = field(default_factory=dict)
    _released: set[int] = field(default_factory=set)
    _next_id: int = 1

    def connect(self, harness: Harness) -> None:
        """Ask for the session; what it owes goes out when CONNACK is there."""
        self.is_ready = False
        self.link = harness.connect(self.name, flags=0, properties=EXPIRY)

    def lose(self) -> None:
        if self.link is not None:
            self.link.lose()
            self.link = None

    def publish(self, message: Message) -> None:
        assert self.link is not None
        packet_id = 0
        if message.qos:
            packet_id = self._next_id
            self._next_id += 1
            self._unacknowledged[packet_id] = message
        self.link.send(message.packet(packet_id))

    def owes(self) -> list[Message]:
        """Messages that would be sent again on a new connection."""
        return list(self._unacknowledged.values())

    def read(self, count: int | None = None) -> None:
        """Work off some of the packets that have come in."""
        link = self.link
        if link is None:
            return
        count = len(link.packets) if count is None else count
        taken, link.packets[:] = link.packets[:count], link.packets[count:]
        for packet in taken:
            self._handle(link, packet)

    def _handle(self, link: Client, packet: Any) -> None:  # noqa: C901 - one case for each packet
        match packet:
            case mqtt5.ConnAckPacket():
                # A session that was promised once is there for good.
                assert packet.session_present or not self.had_connack
                self.had_connack = self.is_ready = True
                for packet_id, message in self._unacknowledged.items():
                    link.send(message.packet(packet_id, duplicate=True))
                for packet_id in sorted(self._released):
                    link.send(encode.ack(PUBREL, packet_id))
            case mqtt5.PublishPacket():
                self._receive(link, packet)
            case mqtt5.PubRelPacket():
                self._received.discard(packet.packet_id)
                link.send(encode.ack(PUBCOMP, packet.packet_id))
            case mqtt5.PubAckPacket():
                message = self._unacknowledged.pop(packet.packet_id)
                self.acknowledged.add(message.payload)
            case mqtt5.PubRecPacket():
                known = self._unacknowledged.pop(packet.packet_id, None)
                if known is not None:
                    self.acknowledged.add(known.payload)
                    self._released.add(packet.packet_id)
                link.send(encode.ack(PUBREL, packet.packet_id))
            case mqtt5.PubCompPacket():
                self._released.discard(packet.packet_id)
            case mqtt5.SubAckPacket() | mqtt5.UnsubAckPacket():
                pass
            case _:
                raise AssertionError(packet)

    def _receive(self, link: Client, packet: Any) -> None:
        qos = int(packet.qos)
        if qos == 2 and packet.packet_id in self._received:
            link.send(encode.ack(PUBREC, packet.packet_id))
            return
        self.log.append((packet.payload, qos))
        if qos == 1:
            link.send(encode.ack(PUBACK, packet.packet_id))
        elif qos == 2:
            self._received.add(packet.packet_id)
            link.send(encode.ack(PUBREC, packet.packet_id))
