"""SIGKILL under load, again and again: what was acknowledged comes, QoS 2 never twice."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.scenes.surroundings import Surroundings
from tests.servers.killable_broker import killable_broker
from tests.servers.raw_client import PUBACK, PUBLISH, RawClient, packet, text, varint
from tests.servers.redis_server import RedisServer, free_port
from tests.servers.running_broker import PATIENCE, until

KILLS = 3
AT_ONCE = 20
# Between two of those: the reader has to keep up in the end.
PAUSE = 0.03
AN_HOUR = b"\x11\x00\x00\x0e\x10"
PUBREC, PUBREL, PUBCOMP = 0x50, 0x62, 0x70


class Reader:
    """paho as it comes, with its own reconnect; counts how often each payload comes."""

    def __init__(self, port: int, surroundings: Surroundings) -> None:
        self.connects = 0
        self.counts: Counter[str] = Counter()
        self._subscribed = threading.Event()
        self.client = paho.Client(CallbackAPIVersion.VERSION2, "reader", protocol=paho.MQTTv5)
        self.client.on_connect = self._connected
        self.client.on_subscribe = lambda *_: self._subscribed.set()
        self.client.on_message = lambda _client, _data, message: self.counts.update(
            [message.payload.decode()]
        )
        self.client.reconnect_delay_set(1, 1)
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3_600
        self.client.connect("127.0.0.1", port, clean_start=False, properties=properties)
        self.client.loop_start()
        until(lambda: self.connects == 1, "the reader's CONNACK")
        near = Properties(PacketTypes.SUBSCRIBE)
        near.UserProperty = [("neighborhood", surroundings.descriptor), ("nsid", "1")]
        for topic, properties in (("plain/#", None), ("near/#", near)):
            self._subscribed.clear()
            options = SubscribeOptions(qos=2)
            self.client.subscribe(topic, options=options, properties=properties)
            assert self._subscribed.wait(PATIENCE)

    def _connected(self, *_: object) -> None:
        self.connects += 1

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


class Writer:
    """Publishes without end and repeats what it must, and nothing else, on a new connection.

    paho will not do here: when its reconnect fails once, it publishes a QoS 2 message again
    that was released before.
    """

    def __init__(self, port: int, qos: int, topic: str, peid: int | None) -> None:
        self.connects = 0
        self.acknowledged: list[str] = []
        self._port = port
        self._name = f"{topic}-{qos}"
        self._qos = qos
        properties = b"" if peid is None else b"\x26" + text("peid") + text(str(peid))
        self._head = text(f"{topic}/x")
        self._properties = varint(len(properties)) + properties
        self._open: dict[int, str] = {}
        self._released: set[int] = set()
        self._number = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while self._open or self._released or not self._ended.is_set():
            try:
                with RawClient(self._port, PATIENCE) as link:
                    link.connect(client_id=self._name, clean=False, properties=AN_HOUR)
                    self.connects += 1
                    link.send(b"".join(self._publish(one, again=True) for one in self._open))
                    link.send(b"".join(packet(PUBREL, ident(one)) for one in self._released))
                    self._write(link)
            except (OSError, EOFError):
                time.sleep(0.1)  # the broker is not there

    def _write(self, link: RawClient) -> None:
        while True:
            while self._open or self._released:
                self._take(link, *link.read_packet())
            if self._ended.is_set():
                return
            time.sleep(PAUSE)
            for packet_id in range(1, AT_ONCE + 1):
                self._open[packet_id] = f"{self._name}-{self._number}"
                self._number += 1
            link.send(b"".join(self._publish(one, again=False) for one in self._open))

    def _publish(self, packet_id: int, *, again: bool) -> bytes:
        first = PUBLISH | self._qos << 1 | (0x08 if again else 0)
        payload = self._open[packet_id].encode()
        return packet(first, self._head, ident(packet_id), self._properties, payload)

    def _take(self, link: RawClient, first: int, body: bytes) -> None:
        packet_id = int.from_bytes(body[:2], "big")
        if first in (PUBACK, PUBREC):
            payload = self._open.pop(packet_id, None)
            if payload is not None:
                self.acknowledged.append(payload)
        if first == PUBREC:
            self._released.add(packet_id)
            link.send(packet(PUBREL, ident(packet_id)))
        elif first == PUBCOMP:
            self._released.discard(packet_id)

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(2 * PATIENCE)
        assert not self._thread.is_alive()


def ident(packet_id: int) -> bytes:
    return packet_id.to_bytes(2, "big")


def test_killed_again_and_again_under_load(
    tmp_path: Path,
    city: Path,
    surroundings: Surroundings,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # While the reader is away, a quick machine fills the queue that a session has by default.
    monkeypatch.setenv("SPAPS_BROKER_LIMITS_QUEUED_MESSAGES", "1000000")
    monkeypatch.setenv("SPAPS_BROKER_LIMITS_QUEUED_BYTES", "1000000000")
    port = free_port()
    options = ("--world", str(city), "--redis", redis_server.url, "--listen", f"127.0.0.1:{port}")
    with killable_broker(tmp_path, *options):
        reader = Reader(port, surroundings)
        writers = [
            Writer(port, qos, topic, peid)
            for qos in (1, 2)
            for topic, peid in (("plain", None), ("near", surroundings.inside))
        ]

        def acknowledged() -> list[str]:
            return [payload for one in writers for payload in one.acknowledged]

        until(lambda: all(len(one.acknowledged) > 50 for one in writers), "the first messages")
    for kill in range(KILLS):
        with killable_broker(tmp_path, *options):
            clients = [reader, *writers]
            until(lambda: all(one.connects >= kill + 2 for one in clients), "all clients")  # noqa: B023
            enough = [len(one.acknowledged) + 40 for one in writers]
            until(
                lambda: all(
                    len(one.acknowledged) > least
                    for one, least in zip(writers, enough, strict=True)  # noqa: B023
                ),
                "messages between two kills",
            )
            # The last one goes on: it has to deliver everything.
            if kill == KILLS - 1:
                for writer in writers:
                    writer.stop()
                until(lambda: all(reader.counts[one] for one in acknowledged()), "all messages")
                reader.close()
    doubled = [one for one, count in reader.counts.items() if count > 1]
    assert all(one.split("-")[1] == "1" for one in doubled), doubled
    assert len(acknowledged()) > 4 * KILLS * 40
