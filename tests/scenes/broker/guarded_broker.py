"""A broker with a password file and rules, and clients that log in."""

from __future__ import annotations

from pathlib import Path

from broker.access.passwords import hash_password
from tests.servers.raw_client import (
    PUBACK,
    PUBLISH,
    SUBACK,
    RawClient,
    packet,
    subscribe_packet,
    text,
)
from tests.servers.running_broker import RunningBroker

NO_WORLD = ("--memberships", "none")
BAD_PASSWORD, NOT_AUTHORIZED, SUCCESS, REFUSED = 0x86, 0x87, 0x00, 0x80
SECRET = hash_password("secret")
RULES = """
user alice
topic readwrite home/#
topic deny home/safe
topic read $SYS/#
user bob
topic read home/kitchen
topic write home/kitchen
pattern readwrite own/%u/%c/#
"""


def access_files(folder: Path, rules: str = RULES) -> str:
    """Write password file and rules; the settings that name them."""
    users = "".join(f"{name}:{SECRET}\n" for name in ("alice", "bob", "+", "a/b", "x#"))
    (folder / "passwords").write_text(users)
    (folder / "rules").write_text(rules)
    return f'[broker]\npassword_file = "{folder}/passwords"\nacl_file = "{folder}/rules"\n'


def login(broker: RunningBroker, user: str, client_id: str | None = None) -> RawClient:
    client = RawClient(broker.port)
    code = client.connect(client_id=client_id or f"{user}'s", user=user, password=b"secret")[1]
    assert code == SUCCESS
    return client


def subscribe(client: RawClient, topic_filter: str) -> int:
    """The reason code of the SUBACK."""
    client.send(subscribe_packet(topic_filter))
    while True:
        first, body = client.read_packet()
        if first == SUBACK:
            return body[-1]


def publish(client: RawClient, topic: str, payload: bytes = b"x") -> int:
    """The reason code of the PUBACK."""
    client.send(packet(PUBLISH | 2, text(topic), b"\x00\x07", b"\x00", payload))
    while True:
        first, body = client.read_packet()
        if first == PUBACK:
            return body[2] if len(body) > 2 else SUCCESS


def next_payload(client: RawClient) -> bytes:
    """The payload of the next PUBLISH with QoS 0."""
    while True:
        first, body = client.read_packet()
        if first & 0xF0 == PUBLISH:
            topic_size = int.from_bytes(body[:2], "big")
            rest = body[2 + topic_size :]
            return rest[1 + rest[0] :]
