"""A broker that is killed, and clients whose sessions outlive it."""

from __future__ import annotations

import os
import re
import select
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.scenes.surroundings import Surroundings
from tests.servers.running_broker import COMMAND, PATIENCE


@contextmanager
def killable_broker(
    folder: Path, *arguments: str, command: Sequence[str] = COMMAND, gives_up: bool = False
) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A broker that ends by SIGKILL; its port and process.

    It acknowledges nothing that Redis does not have, however long that takes on a busy machine,
    unless it ``gives_up`` on Redis after the usual time.
    """
    patience = {} if gives_up else {"SPAPS_BROKER_LIMITS_REDIS_PATIENCE_SECONDS": "600"}
    with (folder / "broker.log").open("a") as log:
        process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--allow-anonymous", *arguments],
            stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder,
            env={**os.environ, **patience},
        )  # fmt: skip
    assert process.stdout is not None
    try:
        readable, _, _ = select.select([process.stdout], [], [], PATIENCE)
        ready = process.stdout.readline() if readable else ""
        found = re.search(r":(\d+) \(default\)", ready)
        assert found is not None, f"{ready}{(folder / 'broker.log').read_text()}"
        yield int(found[1]), process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Client:
    """paho with a session that outlives it."""

    def __init__(self, port: int, client_id: str) -> None:
        self.messages: Queue[paho.MQTTMessage] = Queue()
        self.acknowledged: Queue[int] = Queue()
        self._connected: Queue[bool] = Queue()
        self._subscribed = threading.Event()
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5)
        self.client.on_message = lambda _client, _data, message: self.messages.put(message)
        self.client.on_subscribe = lambda *_: self._subscribed.set()
        self.client.on_publish = lambda _client, _data, _mid, code, _: self.acknowledged.put(
            int(code.value)
        )
        self.client.on_connect = lambda _client, _data, flags, *_: self._connected.put(
            flags.session_present
        )
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3_600
        self.client.connect("127.0.0.1", port, clean_start=False, properties=properties)
        self.client.loop_start()
        self.is_resumed = self._connected.get(timeout=PATIENCE)

    def subscribe(self, topic_filter: str, qos: int, *pairs: tuple[str, str]) -> None:
        properties = Properties(PacketTypes.SUBSCRIBE)
        if pairs:
            properties.UserProperty = list(pairs)
        self._subscribed.clear()
        self.client.subscribe(
            topic_filter, options=SubscribeOptions(qos=qos), properties=properties
        )
        assert self._subscribed.wait(PATIENCE)

    def publish(self, topic: str, payload: str, qos: int, peid: int | None = None) -> int:
        """The reason code with which the broker acknowledged it."""
        properties = Properties(PacketTypes.PUBLISH)
        if peid is not None:
            properties.UserProperty = [("peid", str(peid))]
        retain = topic.startswith("kept/")
        self.client.publish(topic, payload, qos, retain=retain, properties=properties)
        return self.acknowledged.get(timeout=PATIENCE)

    def receive(self, count: int) -> list[str]:
        return [self.messages.get(timeout=PATIENCE).payload.decode() for _ in range(count)]

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def check_all_is_in_force(port: int, subscriber: Client, surroundings: Surroundings) -> None:
    """After a kill: the neighborhood, without being subscribed to again, and what is retained."""
    publisher = Client(port, "publisher")
    assert publisher.is_resumed
    assert publisher.publish("near/b", "outside", 1, surroundings.outside) == 16
    assert publisher.publish("near/b", "inside again", 1, surroundings.inside) == 0
    assert subscriber.receive(1) == ["inside again"]
    subscriber.subscribe("kept/#", 1)
    assert subscriber.receive(1) == ["retained"]
    subscriber.client.loop_stop()
    publisher.client.loop_stop()
