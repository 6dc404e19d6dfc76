"""Members of a share group, and rules that revoke their rights."""

from __future__ import annotations

from broker.codec.reason_codes import ReasonCode
from broker.core.counters import Drop
from broker.core.verdicts import Action, Identity
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

KEPT = b"\x11\x00\x00\x0e\x10"


class Rules:
    """Lets clients receive, but for those in ``denied``; may answer later."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.denied: set[str] = set()
        self.is_slow = is_slow

    def decide(self, client: Identity, action: Action) -> ReasonCode:
        is_denied = action is Action.RECEIVE and client.client_id in self.denied
        return ReasonCode.NOT_AUTHORIZED if is_denied else ReasonCode.SUCCESS

    def verdict(self, client: Identity, _topic: str, action: Action) -> ReasonCode | None:
        return None if self.is_slow else self.decide(client, action)


def takes_at_most(size: int) -> bytes:
    return b"\x27" + size.to_bytes(4, "big")


def member(harness: Harness, name: str, qos: int = 1, properties: bytes = KEPT) -> Client:
    client = harness.connect(name, properties=properties)
    client.subscribe("$share/g/t", qos)
    client.take()
    return client


def back(harness: Harness, name: str, properties: bytes = KEPT) -> Client:
    return harness.connect(name, flags=0, properties=properties)


def publish(publisher: Client, count: int, qos: int = 1, payload: bytes = b"x") -> list[int]:
    """The reason codes of the answers; payloads are numbered from 1."""
    codes = []
    for number in range(1, count + 1):
        packet_id = number if qos else None
        packet = encode.publish("t", b"%d" % number + payload, qos=qos, packet_id=packet_id)
        for answer in publisher.send(packet):
            codes.append(int(answer.reason_code))
            if qos == 2:
                publisher.send(encode.ack(0x62, number))
    return codes


def payloads(client: Client) -> list[bytes]:
    return [one.payload for one in client.messages()]


def drops(harness: Harness) -> dict[Drop, int]:
    return dict(harness.core.counters.drops)
