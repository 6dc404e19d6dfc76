"""Clients of MQTT 3.1.1 and 3.1: sessions, wills, keep alive, and change of version."""

from __future__ import annotations

import mqtt5
import pytest

from broker.codec.reason_codes import ReasonCode
from broker.core.limits import BrokerLimits
from broker.core.requests import Authenticate
from tests.broker_core import encode, mqtt3
from tests.broker_core.encode import ack, text
from tests.broker_core.harness import Harness
from tests.broker_core.mqtt3 import Acknowledged, Connack, Pong, Published, Suback

both_versions = pytest.mark.parametrize("level", [3, 4])
AN_HOUR = b"\x11\x00\x00\x0e\x10"
KEPT = 0x00


@both_versions
def test_a_clean_session_ends_with_its_connection(level: int) -> None:
    harness = Harness()
    client = harness.connect_3("c", level=level)
    client.send(mqtt3.subscribe(("t", 1)))
    client.lose()
    assert len(harness.core.sessions) == 0
    assert harness.core.index.count == 0


@both_versions
def test_another_session_waits_and_gets_what_came_meanwhile(level: int) -> None:
    harness = Harness()
    client = harness.connect_3("c", level=level, flags=KEPT)
    assert client.take() == [Connack(0)]
    client.send(mqtt3.subscribe(("t", 1)))
    client.lose()
    sender = harness.connect("s")
    sender.send(encode.publish("t", b"1", qos=1, packet_id=1, properties=encode.user("a", "b")))
    again = harness.connect_3("c", level=level, flags=KEPT)
    # Only MQTT 3.1.1 is told that there was a session.
    assert again.take() == [
        Connack(0, session_present=level == 4),
        Published("t", b"1", 1, 1),
    ]


def test_it_expires_by_the_setting() -> None:
    harness = Harness(limits=BrokerLimits(session_expiry=100))
    harness.connect_3("c", flags=KEPT).lose()
    harness.advance(99)
    assert len(harness.core.sessions) == 1
    harness.advance(2)
    assert len(harness.core.sessions) == 0


def test_a_clean_session_removes_the_one_before() -> None:
    harness = Harness()
    first = harness.connect_3("c", flags=KEPT)
    first.send(mqtt3.subscribe(("t", 1)))
    first.lose()
    second = harness.connect_3("c")
    assert second.take() == [Connack(0)]
    assert harness.core.index.count == 0


def test_a_session_passes_from_one_version_to_another_and_back() -> None:
    harness = Harness()
    harness.neighborhoods = {"near": [7]}
    new = harness.connect("c", flags=0, properties=AN_HOUR)
    new.subscribe("t", 1, properties=b"\x0b\x05")
    new.subscribe_near("t", "near", nsid=3, options=1)
    old = harness.connect_3("c", flags=KEPT)
    assert new.is_closed
    (farewell,) = [one for one in new.take() if isinstance(one, mqtt5.DisconnectPacket)]
    assert farewell.reason_code == mqtt5.DisconnectReasonCode.SESSION_TAKEN_OVER
    assert old.take() == [Connack(0, session_present=True)]
    sender = harness.connect("s")
    sender.send(encode.publish("t", b"1", qos=1, packet_id=1, properties=encode.user("peid", "7")))
    assert old.take() == [Published("t", b"1", 1, 1)]
    # It was not acknowledged, so the other version gets it again, with everything.
    back = harness.connect("c", flags=0, properties=AN_HOUR)
    assert old.is_closed
    assert old.take() == []
    _connack, again = back.take()
    assert again.duplicate
    assert again.subscription_ids == [5]
    assert again.user_properties == [("nsid", "3"), ("peid", "7")]


def test_a_client_of_the_same_version_takes_over() -> None:
    harness = Harness()
    first = harness.connect_3("c", flags=KEPT)
    second = harness.connect_3("c", flags=KEPT)
    assert first.is_closed
    assert first.take() == [Connack(0)]
    assert second.take() == [Connack(0, session_present=True)]


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (ReasonCode.BAD_USER_NAME_OR_PASSWORD, 4),
        (ReasonCode.NOT_AUTHORIZED, 5),
        (ReasonCode.BANNED, 5),
        (ReasonCode.SERVER_BUSY, 3),
        (ReasonCode.CONNECTION_RATE_EXCEEDED, 3),
        (ReasonCode.UNSPECIFIED_ERROR, 3),
    ],
)
@both_versions
def test_a_refused_login_has_a_return_code(level: int, reason: ReasonCode, code: int) -> None:
    harness = Harness()
    harness.logins = lambda _: reason
    client = harness.connect_3("c", level=level, flags=0xC2, rest=text("u") + text("p"))
    assert client.take() == [Connack(code)]
    assert client.is_closed


def test_no_room_for_a_session_is_server_unavailable() -> None:
    harness = Harness(limits=BrokerLimits(sessions=1))
    harness.connect_3("a")
    assert harness.connect_3("b").take() == [Connack(3)]


def test_user_name_and_password_reach_the_login() -> None:
    harness, asked = Harness(), []

    def login(request: Authenticate) -> ReasonCode:
        asked.append((request.client_id, request.user_name, request.password))
        return ReasonCode.SUCCESS

    harness.logins = login
    harness.connect_3("c", flags=0xC2, rest=text("ann") + text(b"\xff\x00"))
    harness.connect_3("d", level=3, flags=0xC2)
    assert asked == [("c", "ann", b"\xff\x00"), ("d", None, None)]


def test_two_clients_without_a_client_id_have_two_sessions() -> None:
    harness = Harness()
    harness.connect_3("")
    harness.connect_3("")
    assert len(harness.core.sessions) == 2


def test_a_will_is_sent_and_a_disconnect_cancels_it() -> None:
    harness = Harness()
    watcher = harness.connect("w")
    watcher.subscribe("gone/#", 2)
    watcher.take()
    will = 0x06 | 1 << 3 | 0x20
    harness.connect_3("a", flags=will, rest=text("gone/a") + text("bye")).lose()
    (message,) = watcher.messages()
    assert (message.topic, message.payload, int(message.qos)) == ("gone/a", b"bye", 1)
    assert message.user_properties == []
    harness.connect_3("b", flags=will, rest=text("gone/b") + text("bye")).send(encode.DISCONNECT)
    assert watcher.messages() == []
    # The first one is retained.
    late = harness.connect_3("l")
    late.send(mqtt3.subscribe(("gone/#", 0)))
    assert late.messages() == [Published("gone/a", b"bye", 0, retain=True)]


def test_a_client_that_breaks_the_protocol_is_closed_without_a_word_and_its_will_is_sent() -> None:
    harness = Harness()
    watcher = harness.connect_3("w")
    watcher.send(mqtt3.subscribe(("gone", 0)))
    watcher.take()
    client = harness.connect_3("c", flags=0x06, rest=text("gone") + text("bye"))
    client.send(encode.packet(0x82, b""))
    assert client.is_closed
    assert client.take() == [Connack(0)]
    assert watcher.take() == [Published("gone", b"bye")]


@pytest.mark.parametrize(("asked", "granted"), [(10, 10), (600, 600), (0, 1_000), (5_000, 1_000)])
def test_keep_alive_is_what_it_asked_for_up_to_a_limit_of_its_own(asked: int, granted: int) -> None:
    harness = Harness(limits=BrokerLimits(keep_alive=5, keep_alive_mqtt3=1_000))
    client = harness.connect_3("c", keep_alive=asked)
    harness.advance(1.5 * granted - 1)
    assert not client.is_closed
    harness.advance(2)
    assert client.is_closed
    assert client.take() == [Connack(0)]


def test_a_ping_keeps_it_alive() -> None:
    harness = Harness()
    client = harness.connect_3("c", keep_alive=10)
    for _ in range(5):
        harness.advance(9)
        client.send(encode.PINGREQ)
    assert client.take() == [Connack(0)] + [Pong()] * 5


def test_an_operator_ends_its_session_by_closing() -> None:
    harness = Harness()
    client = harness.connect_3("c", flags=KEPT)
    (session,) = harness.core.sessions
    harness.core.end_session(session)
    harness.settle()
    assert client.is_closed
    assert client.take() == [Connack(0)]
    assert len(harness.core.sessions) == 0


def test_a_session_survives_a_kill_with_what_it_needs() -> None:
    harness = Harness(durable=True)
    client = harness.connect_3("c", flags=KEPT)
    client.send(mqtt3.subscribe(("t", 2)))
    client.send(mqtt3.publish("x", b"", qos=2, packet_id=9))
    client.lose()
    harness.connect("s").send(
        encode.publish("t", b"1", qos=1, packet_id=1, properties=encode.user("a", "b")),
        encode.publish("t", b"2", qos=2, packet_id=2),
    )
    after = Harness(durable=True)
    after.core.restore(harness.records)
    again = after.connect_3("c", flags=KEPT)
    assert again.take() == [
        Connack(0, session_present=True),
        Published("t", b"1", 1, 1),
        Published("t", b"2", 2, 2),
    ]
    # The identifier of its own message is still known: it is no second message.
    watcher = after.connect_3("w")
    watcher.send(mqtt3.subscribe(("x", 0)))
    watcher.take()
    again.send(mqtt3.publish("x", b"", qos=2, packet_id=9, duplicate=True), ack(0x62, 9))
    assert again.take() == [Acknowledged(0x50, 9), Acknowledged(0x70, 9)]
    assert watcher.take() == []
    assert after.connect_3("k").send(mqtt3.subscribe(("t", 0))) == [Suback(1, (0,))]


def test_a_clean_session_is_not_recorded() -> None:
    harness = Harness(durable=True)
    harness.connect_3("c").send(mqtt3.subscribe(("t", 1)))
    assert harness.records == []
