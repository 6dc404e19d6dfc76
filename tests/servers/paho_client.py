"""A paho client that waits for its answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.servers.running_broker import PATIENCE


def user_properties(kind: int, *pairs: tuple[str, str]) -> Properties:
    properties = Properties(kind)
    properties.UserProperty = list(pairs)
    return properties


class PahoClient:
    """paho with its messages and SUBACKs in queues."""

    def __init__(self, port: int, client_id: str = "", **options: Any) -> None:
        self.messages: Queue[paho.MQTTMessage] = Queue()
        self.subacks: Queue[tuple[list[int], Properties]] = Queue()
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5, **options
        )
        self.client.on_message = lambda _client, _data, message: self.messages.put(message)
        self.client.on_subscribe = lambda _client, _data, _mid, codes, properties: self.subacks.put(
            ([code.value for code in codes], properties)
        )
        connected = threading.Event()
        self.client.on_connect = lambda *_: connected.set()
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert connected.wait(PATIENCE)

    def subscribe(
        self, topic_filter: str, *pairs: tuple[str, str], qos: int = 1
    ) -> tuple[int, list[tuple[str, str]]]:
        """Reason code and user properties of the SUBACK."""
        self.client.subscribe(
            topic_filter,
            options=SubscribeOptions(qos=qos),
            properties=user_properties(PacketTypes.SUBSCRIBE, *pairs) if pairs else None,
        )
        codes, properties = self.subacks.get(timeout=PATIENCE)
        return codes[0], getattr(properties, "UserProperty", [])

    def publish(self, topic: str, payload: str, *pairs: tuple[str, str], qos: int = 1) -> None:
        self.client.publish(
            topic, payload, qos=qos, properties=user_properties(PacketTypes.PUBLISH, *pairs)
        ).wait_for_publish(PATIENCE)

    def next(self) -> tuple[str, str, list[tuple[str, str]]]:
        message = self.messages.get(timeout=PATIENCE)
        pairs = getattr(message.properties, "UserProperty", [])
        return message.topic, message.payload.decode(), pairs


@contextmanager
def paho_client(port: int, client_id: str = "", **options: Any) -> Iterator[PahoClient]:
    client = PahoClient(port, client_id, **options)
    try:
        yield client
    finally:
        client.client.disconnect()
        client.client.loop_stop()
