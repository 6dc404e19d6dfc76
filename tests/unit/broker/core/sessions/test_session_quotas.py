"""Sessions of one owner: how many, whose client ids, and their end by an operator."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import mqtt5
import pytest

from broker.codec.reason_codes import ReasonCode
from broker.core.journal import MessageQueued, SessionEnded, SessionSaved
from broker.core.limits import BrokerLimits
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

EXPIRY = b"\x11\x00\x00\x0e\x10"
QUOTA = mqtt5.ConnAckReasonCode.QUOTA_EXCEEDED
LIMITS = BrokerLimits(sessions=10, sessions_of_user=4, sessions_of_address=3)


def come(
    harness: Harness, client_id: str, user: str | None = None, host: str | None = "192.0.2.1"
) -> tuple[Client, Any]:
    """A client with a session that outlives its connection, and its CONNACK."""
    login = {} if user is None else {"flags": 0x80, "rest": encode.text(user)}
    client = harness.connect(client_id, host, **{"flags": 0, "properties": EXPIRY} | login)
    return client, client.take()[0]


@pytest.mark.parametrize(("user", "most", "cause"), [(None, 3, "address"), ("ann", 4, "user")])
def test_one_owner_has_so_many_sessions_and_no_more(
    user: str | None, most: int, cause: str
) -> None:
    harness = Harness(limits=LIMITS)
    for number in range(most):
        client, answer = come(harness, f"c{number}", user)
        assert answer.reason_code == 0, number
        client.lose()
    refused, answer = come(harness, "one more", user)
    assert answer.reason_code == QUOTA
    assert f"has {most} sessions" in answer.reason_str
    assert refused.is_closed
    assert harness.core.sessions.refused[cause] == 1
    # What is there already may come back, others are not touched, and an end makes room.
    assert come(harness, "c0", user)[1].session_present
    assert come(harness, "x", "bob")[1].reason_code == 0
    assert come(harness, "x", None, "192.0.2.2")[1].reason_code == 0
    (session,) = harness.core.sessions.of_client_id("c1")
    harness.core.end_session(session)
    assert come(harness, "one more", user)[1].reason_code == 0
    assert come(harness, "two more", user)[1].reason_code == QUOTA


def test_the_whole_table_has_a_limit_too() -> None:
    harness = Harness(limits=LIMITS)
    for number in range(10):
        assert come(harness, "c", f"user{number}")[1].reason_code == 0
    assert come(harness, "c", "one more")[1].reason_code == QUOTA
    assert harness.core.sessions.refused == {"total": 1, "user": 0, "address": 0}


def test_an_anonymous_session_counts_for_the_address_it_was_last_used_from() -> None:
    harness = Harness(limits=LIMITS)
    for number in range(3):
        come(harness, f"c{number}")[0].lose()
    assert come(harness, "c0", host="192.0.2.9")[1].session_present
    assert come(harness, "new")[1].reason_code == 0
    assert come(harness, "newer")[1].reason_code == QUOTA


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("is_connected", [False, True])
def test_sessions_cannot_be_carried_to_an_address_that_has_enough(
    clean: bool, is_connected: bool
) -> None:
    """Else two addresses fill the table: one makes sessions, the other takes them over."""
    harness = Harness(limits=LIMITS)
    for number in range(3):
        come(harness, f"there{number}", host="192.0.2.9")[0].lose()
    client, _ = come(harness, "c")
    if not is_connected:
        client.lose()
    flags = 0x02 if clean else 0
    refused = harness.connect("c", "192.0.2.9", flags=flags, properties=EXPIRY)
    answer = refused.take()[0]
    assert answer.reason_code == QUOTA
    assert "this address has 3 sessions" in answer.reason_str
    assert client.is_closed is not is_connected, "what is there is not touched"
    assert harness.core.sessions.refused["address"] == 1
    # From its own address it goes on, and from the other once there is room.
    assert come(harness, "c")[1].session_present
    (session,) = harness.core.sessions.of_client_id("there0")
    harness.core.end_session(session)
    assert come(harness, "c", host="192.0.2.9")[1].session_present
    assert come(harness, "new", host="192.0.2.9")[1].reason_code == QUOTA


def test_a_restart_forgets_no_quota() -> None:
    harness = Harness(durable=True, limits=LIMITS)
    for number in range(3):
        come(harness, f"c{number}")[0].lose()
    again = Harness(durable=True, limits=LIMITS)
    again.clock.now = harness.clock.now
    again.core.restore(harness.records)
    assert come(again, "new")[1].reason_code == QUOTA


@pytest.mark.parametrize("is_connected", [True, False])
def test_the_answer_to_a_stranger_does_not_say_whether_a_client_id_exists(
    is_connected: bool,
) -> None:
    harness = Harness()
    owner, _ = come(harness, "meter", "ann")
    if not is_connected:
        owner.lose()
    for user in ("bob", None):
        taken = harness.connect("meter", **as_user(user)).take()
        free = harness.connect("other", **as_user(user)).take()
        assert taken == free
    assert owner.is_closed is not is_connected


def as_user(user: str | None) -> dict[str, Any]:
    return {} if user is None else {"flags": 0x82, "rest": encode.text(user)}


def test_two_users_with_one_client_id_have_two_sessions() -> None:
    harness = Harness(durable=True)
    clients = {user: come(harness, "c", user)[0] for user in ("ann", "bob", None)}
    for user, client in clients.items():
        client.subscribe(f"for/{user}", 1)
        client.lose()
    sender = harness.connect("sender")
    for user in clients:
        sender.send(encode.publish(f"for/{user}", str(user).encode(), qos=1, packet_id=1))
    again = Harness(durable=True)
    again.clock.now = harness.clock.now
    again.core.restore(harness.records)
    for user in clients:
        client = again.connect(
            "c", **{"flags": 0, "properties": EXPIRY} | ({} if user is None else
                    {"flags": 0x80, "rest": encode.text(user)}),
        )  # fmt: skip
        connack, message = client.take()
        assert connack.session_present
        assert message.payload == str(user).encode()


def test_sessions_of_an_earlier_release_get_their_new_name_in_one_step() -> None:
    harness = Harness(durable=True)
    client, _ = come(harness, "c", "ann")
    client.subscribe("t", 1)
    client.lose()
    harness.connect("sender").send(encode.publish("t", b"kept", qos=1, packet_id=1))
    # An earlier release wrote the client id alone.
    old = [
        replace(one, client_id="c", **({"host": None} if isinstance(one, SessionSaved) else {}))
        for one in harness.records
        if getattr(one, "client_id", None) == "ann\0c"
    ]
    assert len(old) == len(harness.records)
    again = Harness(durable=True)
    again.clock.now = harness.clock.now
    again.core.restore(old)
    _, written = again.core.journal.take()
    assert SessionEnded("c") in written
    assert {one.client_id for one in written if isinstance(one, MessageQueued)} == {"ann\0c"}
    # What a third broker finds: the old records, and then these.
    third = Harness(durable=True)
    third.clock.now = harness.clock.now
    third.core.restore([*old, *written])
    assert not come(third, "c", None)[1].session_present
    connack, message = third.connect(
        "c", flags=0x80, rest=encode.text("ann"), properties=EXPIRY
    ).take()
    assert connack.session_present
    assert message.payload == b"kept"


def test_an_operator_ends_a_session() -> None:
    harness = Harness()
    watcher = harness.connect("watcher")
    watcher.subscribe("gone")
    watcher.take()
    will = encode.will("gone", b"bye", b"")
    client = harness.connect("c", flags=0x06, rest=will, properties=EXPIRY)
    client.subscribe("t", 1)
    client.take()
    (session,) = harness.core.sessions.of_client_id("c")
    harness.core.end_session(session)
    harness.settle()
    (farewell,) = client.take()
    assert farewell.reason_code == mqtt5.DisconnectReasonCode.ADMINISTRATIVE_ACTION
    assert farewell.reason_str == "ended by an operator"
    assert client.is_closed
    assert not harness.core.sessions.of_client_id("c")
    assert harness.core.index.count == 1
    assert watcher.take()[0].payload == b"bye"


def test_the_log_says_who_came_from_where_and_why_it_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = Harness()

    def open_at(address: str) -> Client:
        client = Client(harness, harness.core.open(address=address))
        harness.clients[client.connection] = client
        return client

    with caplog.at_level(logging.INFO):
        first = open_at("192.0.2.1:4711")
        first.send(encode.connect("c", flags=0x82, rest=encode.text("ann")))
        first.send(encode.DISCONNECT)
        harness.logins = lambda _: ReasonCode.NOT_AUTHORIZED
        open_at("192.0.2.2:1").send(encode.connect("d", flags=0x82, rest=encode.text("bob")))
        older = open_at("192.0.2.3:1")
        older.is_old = True
        older.send(b"\x10\x0c\x00\x04MQTT\x03\x02\x00\x3c\x00\x00")
        open_at("192.0.2.4:1")
        harness.advance(11)
    logged = [
        (one.getMessage(), one.client, one.user, getattr(one, "from"))  # type: ignore[attr-defined]
        for one in caplog.records
    ]
    assert logged[0] == ("client connected", "c", "ann", "192.0.2.1:4711")
    assert logged[1] == (
        "client disconnected: the client left with code 0x00", "c", "ann", "192.0.2.1:4711",
    )  # fmt: skip
    assert logged[2] == ("client refused: not let in", "d", "bob", "192.0.2.2:1")
    assert logged[3][0].startswith("client refused: ")
    assert logged[3][1:] == (None, None, "192.0.2.3:1")
    assert logged[4] == ("client refused: no CONNECT in time", None, None, "192.0.2.4:1")
    assert len(logged) == 5
