"""A right that is taken away, on the running broker: nothing of before slips through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.access.passwords import hash_password
from tests.servers.raw_client import (
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBLISH,
    SUBACK,
    RawClient,
    packet,
    publish_packet,
    subscribe_packet,
    text,
)
from tests.servers.running_broker import RunningBroker, running_broker

SECRET = hash_password("secret")
# Everybody may read and write news; what bob may do at the safe changes.
ALWAYS = "user alice\ntopic readwrite #\nuser bob\ntopic readwrite news\n"
BOB_READS = "topic read safe\n"
BOB_WRITES = "topic write safe\n"
SAFE, NEWS = "safe", "news"
AN_HOUR = b"\x11\x00\x00\x0e\x10"
RETAIN, QOS_1 = 1, 2


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    (tmp_path / "passwords").write_text("".join(f"{one}:{SECRET}\n" for one in ("alice", "bob")))
    (tmp_path / "rules").write_text(ALWAYS + BOB_READS + BOB_WRITES)
    config = f'[broker]\npassword_file = "{tmp_path}/passwords"\nacl_file = "{tmp_path}/rules"\n'
    with running_broker(tmp_path, "--memberships", "none", config=config) as running:
        yield running


@pytest.fixture
def leave_bob(tmp_path: Path, broker: RunningBroker) -> Callable[[str], None]:
    """Leave bob these rights alone, in force when the call returns."""

    def change(rights: str) -> None:
        (tmp_path / "rules").write_text(ALWAYS + rights)
        broker.reload()
        broker.wait_for_log("access files read again")

    return change


def login(
    broker: RunningBroker, user: str, properties: bytes = b"", **options: object
) -> RawClient:
    client = RawClient(broker.port)
    code = client.connect(
        client_id=user, user=user, password=b"secret", clean=False, properties=properties, **options
    )[1]
    assert code == 0
    return client


def subscribe(client: RawClient, *filters: str) -> None:
    for topic_filter in filters:
        client.send(subscribe_packet(topic_filter, options=1))
        while client.read_packet()[0] != SUBACK:
            pass


def publish(client: RawClient, topic: str, payload: bytes, flags: int = QOS_1) -> None:
    client.send(packet(PUBLISH | flags, text(topic), b"\x00\x07", b"\x00", payload))
    while client.read_packet()[0] != PUBACK:
        pass


def is_quiet(client: RawClient) -> bool:
    """Whether nothing is on its way to the client."""
    client.send(packet(PINGREQ))
    return client.read_packet()[0] == PINGRESP


def next_message(client: RawClient) -> tuple[str, bytes, bytes]:
    """Topic, packet identifier (none at QoS 0) and payload of the next PUBLISH."""
    while True:
        first, body = client.read_packet()
        if first & 0xF0 == PUBLISH:
            end = 2 + int.from_bytes(body[:2], "big")
            start = end + (2 if first & 0x06 else 0)
            return body[2:end].decode(), body[end:start], body[start + 1 + body[start] :]


def test_queued_messages_do_not_come(
    broker: RunningBroker, leave_bob: Callable[[str], None]
) -> None:
    with login(broker, "alice") as alice:
        with login(broker, "bob", AN_HOUR) as bob:
            subscribe(bob, SAFE, NEWS)
        publish(alice, SAFE, b"secret")
        publish(alice, NEWS, b"first")
        leave_bob("")
        with login(broker, "bob", AN_HOUR) as bob:
            assert next_message(bob)[::2] == (NEWS, b"first")


def test_messages_in_flight_and_behind_them_do_not_come_again(
    broker: RunningBroker, leave_bob: Callable[[str], None]
) -> None:
    one_at_a_time = AN_HOUR + b"\x21\x00\x01"
    with login(broker, "alice") as alice:
        with login(broker, "bob", one_at_a_time) as bob:
            subscribe(bob, SAFE, NEWS)
            publish(alice, SAFE, b"in flight")
            publish(alice, SAFE, b"behind")
            publish(alice, NEWS, b"last")
            assert next_message(bob)[2] == b"in flight"  # and never acknowledged
        leave_bob("")
        with login(broker, "bob", one_at_a_time) as bob:
            assert next_message(bob)[::2] == (NEWS, b"last")


def test_what_waits_for_an_acknowledgement_of_a_connected_client_does_not_come(
    broker: RunningBroker, leave_bob: Callable[[str], None]
) -> None:
    with login(broker, "alice") as alice, login(broker, "bob", b"\x21\x00\x01") as bob:
        subscribe(bob, SAFE, NEWS)
        publish(alice, SAFE, b"in flight")
        publish(alice, SAFE, b"behind")
        publish(alice, NEWS, b"last")
        _, packet_id, payload = next_message(bob)
        assert payload == b"in flight"
        leave_bob("")
        bob.send(packet(PUBACK, packet_id))
        assert next_message(bob)[::2] == (NEWS, b"last")


def test_retained_messages_do_not_come_to_who_may_not_read_them_any_more(
    broker: RunningBroker, leave_bob: Callable[[str], None]
) -> None:
    with login(broker, "alice") as alice, login(broker, "bob") as bob:
        subscribe(bob, SAFE)
        publish(alice, SAFE, b"secret", QOS_1 | RETAIN)
        assert next_message(bob)[2] == b"secret"
        leave_bob("")
        # The subscription is there and would be given retained messages again.
        bob.send(subscribe_packet(SAFE, options=1))
        assert bob.read_packet()[1][-1] == 0x87
        assert is_quiet(bob)
        publish(alice, NEWS, b"news", QOS_1 | RETAIN)
        subscribe(bob, NEWS)
        assert next_message(bob)[::2] == (NEWS, b"news")


def test_retained_messages_of_who_may_not_write_them_any_more(
    broker: RunningBroker, leave_bob: Callable[[str], None]
) -> None:
    with login(broker, "bob") as bob:
        publish(bob, SAFE, b"lies", QOS_1 | RETAIN)
        publish(bob, NEWS, b"news", QOS_1 | RETAIN)
    with login(broker, "alice") as alice:
        subscribe(alice, SAFE)
        assert next_message(alice)[2] == b"lies", "as long as bob may say so"
    leave_bob(BOB_READS)
    with login(broker, "alice") as alice:
        subscribe(alice, SAFE)
        assert is_quiet(alice)
        subscribe(alice, NEWS)
        assert next_message(alice)[::2] == (NEWS, b"news")


def test_a_will_is_not_sent_when_its_right_is_gone_meanwhile(
    broker: RunningBroker, leave_bob: Callable[[str], None]
) -> None:
    with login(broker, "alice") as alice:
        subscribe(alice, "#")
        with login(broker, "bob", will=(SAFE, b"may still be said")):
            pass
        assert next_message(alice)[::2] == (SAFE, b"may still be said")
        with login(broker, "bob", will=(SAFE, b"may not be said any more")):
            leave_bob(BOB_READS)
        with login(broker, "bob") as bob:  # the session is taken over: its will was due before
            bob.send(publish_packet(NEWS, b"news"))
            assert next_message(alice)[::2] == (NEWS, b"news")
