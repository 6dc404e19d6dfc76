"""Connecting, publishing and subscribing: what every client does."""

from __future__ import annotations

import mqtt5
import pytest

from broker.codec.reason_codes import ReasonCode
from broker.core.limits import BrokerLimits
from tests.broker_core import encode
from tests.broker_core.harness import Harness


def test_connack_tells_what_is_granted() -> None:
    harness = Harness(limits=BrokerLimits(receive_maximum=7, packet_bytes=70_000, keep_alive=60))
    (connack,) = harness.connect("c", keep_alive=120).take()
    assert connack.reason_code == mqtt5.ConnAckReasonCode.SUCCESS
    assert not connack.session_present
    assert connack.receive_max == 7
    assert connack.max_packet_size == 70_000
    assert connack.server_keep_alive == 60
    assert connack.assigned_client_id is None
    assert connack.topic_alias_max == BrokerLimits().topic_aliases_in


def test_a_client_that_cannot_take_its_connack_is_not_served() -> None:
    """A packet above the client's maximum must not be sent, whatever it says."""
    harness = Harness()
    watching = harness.connect("w")
    watching.subscribe("gone")
    watching.take()
    size = len(harness.connect("c").raw)
    for most, served in ((size, True), (size - 1, False), (2, False)):
        properties = b"\x27" + most.to_bytes(4, "big")
        client = harness.connect(
            "c", flags=0x06, properties=properties, rest=encode.will("gone", b"")
        )
        assert client.is_closed is not served
        assert (client.raw == b"") is not served
        if served:
            client.send(b"\xe0\x00")
    assert watching.messages() == [], "no will of a client that was never served"


def test_a_keep_alive_within_the_limit_is_kept() -> None:
    (connack,) = Harness().connect("c", keep_alive=30).take()
    assert connack.server_keep_alive is None


def test_keep_alive_zero_gets_the_limit() -> None:
    (connack,) = Harness().connect("c", keep_alive=0).take()
    assert connack.server_keep_alive == BrokerLimits().keep_alive


def test_without_a_client_id_one_is_assigned() -> None:
    harness = Harness()
    first, second = (harness.connect("").take()[0].assigned_client_id for _ in range(2))
    assert first
    assert second
    assert first != second


def test_response_information_only_when_asked_for() -> None:
    harness = Harness()
    (asked,) = harness.connect("a", properties=b"\x19\x01").take()
    (not_asked,) = harness.connect("b").take()
    assert asked.response_info == "response/a"
    assert not_asked.response_info is None


def test_refused_login() -> None:
    harness = Harness()
    harness.logins = lambda _request: ReasonCode.BAD_USER_NAME_OR_PASSWORD
    client = harness.connect("c")
    (connack,) = client.take()
    assert connack.reason_code == mqtt5.ConnAckReasonCode.BAD_USER_NAME_OR_PASSWORD
    assert client.is_closed
    assert len(harness.core.sessions) == 0


def test_enhanced_authentication_is_refused() -> None:
    client = Harness().connect("c", properties=b"\x15" + encode.text("SCRAM-SHA-1"))
    (connack,) = client.take()
    assert connack.reason_code == mqtt5.ConnAckReasonCode.BAD_AUTHENTICATION_METHOD
    assert client.is_closed


def test_unknown_version_gets_a_connack_of_mqtt_5() -> None:
    client = Harness().connect("c", version=6)
    (connack,) = client.take()
    assert connack.reason_code == mqtt5.ConnAckReasonCode.UNSUPPORTED_PROTOCOL_VERSION
    assert client.is_closed


def test_packets_sent_right_after_connect_are_worked_off_after_connack() -> None:
    harness = Harness()
    client = harness.open()
    client.send(encode.connect("c") + encode.subscribe(("t", 0)) + encode.publish("t", b"x"))
    kinds = [type(one).__name__ for one in client.take()]
    assert kinds == ["ConnAckPacket", "SubAckPacket", "PublishPacket"]


def test_ping() -> None:
    client = Harness().connect("c")
    (answer,) = client.send(encode.PINGREQ)
    assert isinstance(answer, mqtt5.PingRespPacket)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_a_message_arrives_at_the_lower_qos(qos: int, granted: int) -> None:
    harness = Harness()
    publisher, subscriber = harness.connect("p"), harness.connect("s")
    subscriber.subscribe("a/+", granted)
    publisher.send(encode.publish("a/b", b"x", qos=qos, packet_id=9 if qos else None))
    (message,) = subscriber.messages()
    assert (message.topic, message.payload) == ("a/b", b"x")
    assert int(message.qos) == min(qos, granted)


def test_acknowledgements_say_when_nobody_is_there() -> None:
    publisher = Harness().connect("p")
    (puback,) = publisher.send(encode.publish("t", qos=1, packet_id=5))
    (pubrec,) = publisher.send(encode.publish("t", qos=2, packet_id=6))
    assert puback.packet_id == 5
    assert puback.reason_code == mqtt5.PubAckReasonCode.NO_MATCHING_SUBSCRIBERS
    assert pubrec.reason_code == mqtt5.PubRecReasonCode.NO_MATCHING_SUBSCRIBERS


def test_all_properties_pass_untouched_and_in_order() -> None:
    harness = Harness()
    publisher, subscriber = harness.connect("p"), harness.connect("s")
    subscriber.subscribe("t")
    properties = (
        b"\x01\x01" + encode.user("b", "2") + b"\x08" + encode.text("answers")
        + encode.user("a", "1") + b"\x09" + encode.text(b"\x00\xff") + b"\x03"
        + encode.text("text/plain") + encode.user("b", "1")
    )  # fmt: skip
    publisher.send(encode.publish("t", b"x", properties=properties))
    assert subscriber.raw.endswith(encode.publish("t", b"x", properties=properties))


def test_unsubscribe_ends_it() -> None:
    harness = Harness()
    client = harness.connect("c")
    client.subscribe("t")
    (unsuback,) = client.send(encode.unsubscribe("t", "other"))
    assert [int(code) for code in unsuback.reason_codes] == [0x00, 0x11]
    client.send(encode.publish("t", b"x"))
    assert client.messages() == []
    assert harness.core.index.count == 0


def test_disconnect_ends_a_session_without_expiry() -> None:
    harness = Harness()
    client = harness.connect("c")
    client.subscribe("t")
    client.send(encode.DISCONNECT)
    assert client.is_closed
    assert len(harness.core.sessions) == 0
    assert harness.core.index.count == 0


def test_shut_down_tells_everyone() -> None:
    harness = Harness()
    client = harness.connect("c")
    client.take()
    harness.core.shut_down()
    harness.settle()
    (goodbye,) = client.take()
    assert goodbye.reason_code == mqtt5.DisconnectReasonCode.SERVER_SHUTTING_DOWN
    assert client.is_closed


def test_reason_strings_only_when_the_client_wants_them() -> None:
    harness = Harness()
    curious = harness.connect("a")
    content = harness.connect("b", properties=b"\x17\x00")
    for client in (curious, content):
        client.take()
        client.send(encode.publish("a/#"))
    assert curious.take()[0].reason_str == "the topic holds a wildcard"
    assert content.take()[0].reason_str is None
