"""What the broker benchmark plays: entities, neighborhoods, topics, and the packets of both.

Neighborhood number n holds the n-th 2,000 entities, so every publish matches once. In the fan-out
scene ten clients hold the same neighborhoods, so every publish matches ten times. Brokers
that know no neighborhoods get one topic for each entity instead.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broker.codec.fields import varint

Peids: TypeAlias = NDArray[np.int64]

SEED: Final = 5
MEMBERS: Final = 2_000
NEIGHBORHOODS: Final = 1_000
SUBSCRIPTIONS_OF_CLIENT: Final = 10
# Distinct entities that are published about; in the mode redis they all fit into its cache.
PUBLISHED: Final = 100_000
PAYLOAD_BYTES: Final = 32
# Numbers of two digits and peids of ten, so that all packets of a scene have one size.
FIRST_NSID: Final = 10
LOWEST_PEID, HIGHEST_PEID = 10**9, 10**10

CONNECT, SUBSCRIBE, PUBLISH = 0x10, 0x82, 0x30
# An hour: the session outlives its connection and is stored.
EXPIRY: Final = b"\x11" + (3_600).to_bytes(4, "big")
# DISCONNECT that ends the session too.
LEAVE: Final = b"\xe0\x07\x00\x05\x11" + bytes(4)
MQTT_5, MQTT_311 = 5, 4


@cache
def all_peids() -> Peids:
    """Return the entities in the order of the neighborhoods: the same in every process."""
    rng = np.random.default_rng(SEED)
    wanted = NEIGHBORHOODS * MEMBERS
    peids = np.unique(rng.integers(LOWEST_PEID, HIGHEST_PEID, wanted + wanted // 50))
    return rng.permutation(peids)[:wanted]


def members_of(number: int, size: int = MEMBERS) -> Peids:
    """Return the members of a neighborhood, ascending."""
    start = number * MEMBERS
    return np.sort(all_peids()[start : start + size])


def descriptor_of(number: int) -> str:
    """Return a neighborhood with this number as its only reference."""
    stages = [{"cats": ["#"], "cond": "C"}]
    return json.dumps({"refs": [number], "stages": stages}, separators=(",", ":"))


def number_of(descriptor: str) -> int:
    """Return the number that ``descriptor_of`` was given."""
    return int(json.loads(descriptor)["refs"][0])


@dataclass(frozen=True)
class Scene:
    """How many clients there are, and how many of them each publish goes to."""

    topic: str
    clients: int
    copies: int

    def neighborhoods_of(self, client: int) -> range:
        """Return the numbers of the neighborhoods that a client holds."""
        group = client // self.copies
        return range(group * SUBSCRIPTIONS_OF_CLIENT, (group + 1) * SUBSCRIPTIONS_OF_CLIENT)

    def published(self) -> list[tuple[int, int]]:
        """Return members of neighborhoods in any order, each with its neighborhood."""
        held = self.clients // self.copies * SUBSCRIPTIONS_OF_CLIENT * MEMBERS
        rng = np.random.default_rng(SEED + 1)
        places = rng.choice(held, min(PUBLISHED, held), replace=False)
        return list(zip(all_peids()[places].tolist(), (places // MEMBERS).tolist(), strict=True))


ONE_MATCH: Final = Scene("sensor/temperature", clients=100, copies=1)
FAN_OUT: Final = Scene("sensor/humidity", clients=10, copies=10)


# --- packets


def text(value: str) -> bytes:
    """Return a string with its length in front."""
    content = value.encode()
    return len(content).to_bytes(2, "big") + content


def packet(first: int, *parts: bytes) -> bytes:
    """Return a whole packet."""
    body = b"".join(parts)
    return bytes([first]) + varint(len(body)) + body


def user_property(name: str, value: str) -> bytes:
    """Return one user property."""
    return b"\x26" + text(name) + text(value)


def section(version: int, *properties: bytes) -> bytes:
    """Return a property section; MQTT 3.1.1 has none."""
    if version != MQTT_5:
        return b""
    content = b"".join(properties)
    return varint(len(content)) + content


def connect(client_id: str, version: int, *, kept: bool = False) -> bytes:
    """Return CONNECT with a clean start and without keep alive; ``kept``: with a session."""
    head = text("MQTT") + bytes([version, 0x02, 0, 0])
    return packet(CONNECT, head, section(version, EXPIRY if kept else b""), text(client_id))


def subscribe(topics: list[str], version: int, qos: int, *properties: bytes) -> bytes:
    """Return SUBSCRIBE to any number of filters."""
    filters = b"".join(text(topic) + bytes([qos]) for topic in topics)
    return packet(SUBSCRIBE, b"\x00\x01", section(version, *properties), filters)


def publish(
    topic: str, version: int, *properties: bytes, packet_id: int = 0, qos: int = 1
) -> bytes:
    """Return PUBLISH; ``qos`` counts when there is a packet identifier."""
    first, identifier = PUBLISH, b""
    if packet_id:
        first, identifier = PUBLISH | qos << 1, packet_id.to_bytes(2, "big")
    payload = bytes(PAYLOAD_BYTES)
    return packet(first, text(topic), identifier, section(version, *properties), payload)
