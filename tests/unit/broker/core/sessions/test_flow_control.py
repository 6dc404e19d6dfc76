"""QoS 1 and 2 in both directions: identifiers, repetition, receive maximum, queues."""

from __future__ import annotations

from typing import Any

import mqtt5
import pytest

from broker.core.counters import Drop
from broker.core.limits import BrokerLimits
from broker.core.message import DELIVERY_BYTES, Message
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

PUBACK, PUBREC, PUBREL, PUBCOMP = 0x40, 0x50, 0x62, 0x70
EXPIRY = b"\x11\x00\x00\x0e\x10"


def receive_maximum(number: int) -> bytes:
    return b"\x21" + number.to_bytes(2, "big")


def pair(harness: Harness, qos: int, **keywords: Any) -> tuple[Client, Client]:
    publisher, subscriber = harness.connect("p"), harness.connect("s", **keywords)
    subscriber.subscribe("t", qos)
    subscriber.take()
    return publisher, subscriber


def publish(client: Client, count: int, qos: int, start: int = 1) -> None:
    for number in range(start, start + count):
        client.send(encode.publish("t", b"%d" % number, qos=qos, packet_id=number))


def payloads(packets: list[Any]) -> list[bytes]:
    return [one.payload for one in packets if isinstance(one, mqtt5.PublishPacket)]


def test_no_more_than_the_receive_maximum_is_in_flight() -> None:
    publisher, subscriber = pair(Harness(), 1, properties=receive_maximum(2))
    publish(publisher, 4, 1)
    first, second = subscriber.take()
    assert payloads([first, second]) == [b"1", b"2"]
    (third,) = subscriber.send(encode.ack(PUBACK, first.packet_id))
    assert third.payload == b"3"
    (fourth,) = subscriber.send(encode.ack(PUBACK, second.packet_id))
    assert fourth.payload == b"4"


def test_qos_2_counts_until_pubcomp() -> None:
    publisher, subscriber = pair(Harness(), 2, properties=receive_maximum(1))
    publish(publisher, 2, 2)
    (first,) = subscriber.take()
    (pubrel,) = subscriber.send(encode.ack(PUBREC, first.packet_id))
    assert isinstance(pubrel, mqtt5.PubRelPacket)
    (second,) = subscriber.send(encode.ack(PUBCOMP, first.packet_id))
    assert second.payload == b"2"


def test_a_refused_qos_2_message_is_done() -> None:
    publisher, subscriber = pair(Harness(), 2, properties=receive_maximum(1))
    publish(publisher, 2, 2)
    (first,) = subscriber.take()
    (second,) = subscriber.send(encode.ack(PUBREC, first.packet_id, b"\x97"))
    assert second.payload == b"2"


def test_qos_0_is_not_held_up() -> None:
    publisher, subscriber = pair(Harness(), 1, properties=receive_maximum(1))
    publish(publisher, 2, 1)
    publisher.send(encode.publish("t", b"now"))
    assert payloads(subscriber.take()) == [b"1", b"now"]


def test_repeated_qos_2_is_routed_once() -> None:
    publisher, subscriber = pair(Harness(), 0)
    packet = encode.publish("t", b"x", qos=2, packet_id=3)
    publisher.take()
    answers = publisher.send(packet, packet, packet)
    assert [type(one).__name__ for one in answers] == ["PubRecPacket"] * 3
    assert len(subscriber.messages()) == 1
    (pubcomp,) = publisher.send(encode.ack(PUBREL, 3))
    assert pubcomp.reason_code == mqtt5.PubCompReasonCode.SUCCESS
    publisher.send(packet)
    assert len(subscriber.messages()) == 1


def test_more_than_our_receive_maximum_ends_the_connection() -> None:
    client = Harness(limits=BrokerLimits(receive_maximum=3)).connect("c")
    publish(client, 3, 2)
    assert not client.is_closed
    client.take()
    publish(client, 1, 2, start=4)
    (end,) = client.take()
    assert end.reason_code == mqtt5.DisconnectReasonCode.RECEIVE_MAX_EXCEEDED


def test_released_messages_make_room() -> None:
    client = Harness(limits=BrokerLimits(receive_maximum=1)).connect("c")
    for number in range(1, 10):
        client.send(encode.publish("t", qos=2, packet_id=number))
        client.send(encode.ack(PUBREL, number))
    assert not client.is_closed


def test_a_refused_message_makes_room() -> None:
    client = Harness(limits=BrokerLimits(receive_maximum=1)).connect("c")
    for number in range(1, 4):
        client.send(
            encode.publish("t", qos=2, packet_id=number, properties=encode.user("peid", "x"))
        )
    assert not client.is_closed


def test_a_million_repetitions_of_one_identifier_cost_nothing() -> None:
    harness = Harness()
    client = harness.connect("c")
    chunk = encode.publish("t", b"x" * 10, qos=2, packet_id=1) * 1_000
    for _ in range(20):
        harness.core.receive(client.connection, chunk)
        harness.core.output_of(client.connection)
        harness.core.outbox.writes.clear()
    session = harness.core.sessions.find("c")
    assert session is not None
    assert session.incoming.received == {1}
    assert not client.connection.promised


@pytest.mark.parametrize(
    ("qos", "wrong"), [(1, PUBREC), (1, PUBCOMP), (2, PUBACK)], ids=["rec", "comp", "ack"]
)
def test_the_wrong_acknowledgement_ends_the_connection(qos: int, wrong: int) -> None:
    publisher, subscriber = pair(Harness(), qos)
    publish(publisher, 1, qos)
    (message,) = subscriber.take()
    (end,) = subscriber.send(encode.ack(wrong, message.packet_id))
    assert end.reason_code == mqtt5.DisconnectReasonCode.PROTOCOL_ERROR


def test_unacknowledged_messages_come_again_in_order_as_duplicates() -> None:
    harness = Harness()
    publisher, subscriber = pair(harness, 2, properties=EXPIRY)
    publish(publisher, 2, 1)
    publish(publisher, 1, 2, start=3)
    before = subscriber.messages()
    subscriber.lose()
    again = harness.connect("s", flags=0, properties=EXPIRY)
    connack, *after = again.take()
    assert connack.session_present
    assert payloads(after) == payloads(before) == [b"1", b"2", b"3"]
    assert [one.packet_id for one in after] == [one.packet_id for one in before]
    assert all(one.duplicate for one in after)
    assert not any(one.duplicate for one in before)


def test_after_pubrec_only_pubrel_comes_again() -> None:
    harness = Harness()
    publisher, subscriber = pair(harness, 2, properties=EXPIRY)
    publish(publisher, 1, 2)
    (message,) = subscriber.take()
    subscriber.send(encode.ack(PUBREC, message.packet_id))
    subscriber.lose()
    again = harness.connect("s", flags=0, properties=EXPIRY)
    _, pubrel = again.take()
    assert isinstance(pubrel, mqtt5.PubRelPacket)
    assert pubrel.packet_id == message.packet_id
    again.send(encode.ack(PUBCOMP, message.packet_id))
    session = harness.core.sessions.find("s")
    assert session is not None
    assert not session.outgoing.identified


def test_repetitions_respect_the_new_receive_maximum() -> None:
    harness = Harness()
    publisher, subscriber = pair(harness, 1, properties=EXPIRY)
    publish(publisher, 3, 1)
    subscriber.lose()
    again = harness.connect("s", flags=0, properties=EXPIRY + receive_maximum(1))
    _, first = again.take()
    assert first.payload == b"1"
    (second,) = again.send(encode.ack(PUBACK, first.packet_id))
    assert (second.payload, second.duplicate) == (b"2", True)


def test_messages_queue_while_the_client_is_away() -> None:
    harness = Harness()
    publisher, subscriber = pair(harness, 2, properties=EXPIRY)
    subscriber.send(encode.DISCONNECT)
    publisher.send(encode.publish("t", b"0"))
    publish(publisher, 2, 1)
    again = harness.connect("s", flags=0, properties=EXPIRY)
    assert payloads(again.take()) == [b"1", b"2"]


def test_the_queue_is_bounded_by_count() -> None:
    harness = Harness(limits=BrokerLimits(queued_messages=3))
    publisher, subscriber = pair(harness, 1, properties=EXPIRY)
    subscriber.lose()
    publish(publisher, 5, 1)
    assert harness.core.counters.drops[Drop.QUEUE_FULL] == 2
    again = harness.connect("s", flags=0, properties=EXPIRY)
    assert payloads(again.take()) == [b"1", b"2", b"3"]


@pytest.mark.parametrize(("spare", "kept"), [(0, 2), (-1, 1)])
def test_the_queue_is_bounded_by_bytes(spare: int, kept: int) -> None:
    size = Message("t", b"x" * 1_000).size + DELIVERY_BYTES
    harness = Harness(limits=BrokerLimits(queued_bytes=2 * size + spare))
    publisher, subscriber = pair(harness, 1, properties=EXPIRY)
    subscriber.lose()
    for number in range(1, 5):
        publisher.send(encode.publish("t", b"x" * 1_000, qos=1, packet_id=number))
    session = harness.core.sessions.find("s")
    assert session is not None
    assert len(session.outgoing.queue) == kept
    assert session.outgoing.bytes == kept * size
    assert harness.core.counters.drops[Drop.QUEUE_FULL] == 4 - kept


def test_a_client_that_does_not_read_loses_qos_0_and_keeps_qos_1() -> None:
    harness = Harness()
    publisher, subscriber = pair(harness, 1)
    other = harness.connect("o")
    other.subscribe("t")
    other.take()
    harness.core.pause_writing(subscriber.connection)
    publisher.send(encode.publish("t", b"lost"))
    publish(publisher, 2, 1)
    assert subscriber.take() == []
    assert payloads(other.take()) == [b"lost", b"1", b"2"]
    assert harness.core.counters.drops[Drop.SLOW_CONSUMER] == 1
    harness.core.resume_writing(subscriber.connection)
    harness.settle()
    assert payloads(subscriber.take()) == [b"1", b"2"]
    publisher.send(encode.publish("t", b"again"))
    assert payloads(subscriber.take()) == [b"again"]


def test_identifiers_wrap_around_and_skip_those_in_use() -> None:
    harness = Harness()
    publisher, subscriber = pair(harness, 1)
    publish(publisher, 2, 1)
    first, second = subscriber.messages()
    subscriber.send(encode.ack(PUBACK, first.packet_id))
    session = harness.core.sessions.find("s")
    assert session is not None
    session.outgoing._last_id = 65_533
    publish(publisher, 4, 1, start=3)
    assert (first.packet_id, second.packet_id) == (1, 2)
    assert [one.packet_id for one in subscriber.messages()] == [65_534, 65_535, 1, 3]


def test_a_message_too_large_for_its_receiver_is_left_out() -> None:
    harness = Harness()
    publisher, subscriber = pair(harness, 1, properties=b"\x27\x00\x00\x00\x40")
    publisher.send(encode.publish("t", b"x" * 32, qos=1, packet_id=1))
    publisher.send(encode.publish("t", b"x" * 64, qos=1, packet_id=2))
    publisher.send(encode.publish("t", b"x" * 64))
    publisher.send(encode.publish("t", b"y" * 32, qos=1, packet_id=3))
    assert [one[:1] for one in payloads(subscriber.take())] == [b"x", b"y"]
    assert harness.core.counters.drops[Drop.TOO_LARGE] == 2
    session = harness.core.sessions.find("s")
    assert session is not None
    assert len(session.outgoing.identified) == 2


def test_the_largest_packet_that_fits_is_sent() -> None:
    whole = len(encode.publish("t", b"x" * 40))
    for limit, count in ((whole, 1), (whole - 1, 0)):
        publisher, subscriber = pair(Harness(), 0, properties=b"\x27" + limit.to_bytes(4, "big"))
        publisher.send(encode.publish("t", b"x" * 40))
        assert len(subscriber.messages()) == count
