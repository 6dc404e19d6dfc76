"""Steps of a test that subscribes to a neighborhood of many members."""

from __future__ import annotations

import mqtt5

from broker.filter.memberships_memory import MemoryMemberships
from broker.filter.memberships_redis import RedisMemberships
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness


def turn(harness: Harness) -> None:
    """What the shell does at the next turn of its loop."""
    harness.core.tick()
    harness.settle()


def finish(harness: Harness, client: Client) -> int:
    """Turns until the client has its SUBACK."""
    turns = 0
    while not any(isinstance(one, mqtt5.SubAckPacket) for one in client.packets):
        turn(harness)
        turns += 1
    return turns


def near(descriptor: str, nsid: int = 1, pattern: str = "t") -> bytes:
    properties = encode.user("neighborhood", descriptor) + encode.user("nsid", str(nsid))
    return encode.subscribe((pattern, 0), properties=properties)


def about(peid: int, payload: bytes = b"x") -> bytes:
    return encode.publish("t", payload, properties=encode.user("peid", str(peid)))


def switch_to(memberships: MemoryMemberships | RedisMemberships, builder: object) -> None:
    if isinstance(memberships, RedisMemberships):
        memberships.switch(builder, None)  # type: ignore[arg-type]
    else:
        memberships.switch(builder)  # type: ignore[arg-type]
