"""The journal: what is promised is stored first, and what is stored comes back."""

from __future__ import annotations

from itertools import chain
from typing import Any

import mqtt5
import numpy as np

from broker.core.journal import MessageQueued, Record
from broker.core.limits import BrokerLimits
from broker.durability.records.message_bytes import message_to_bytes
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

EXPIRY = b"\x11\x00\x00\x0e\x10"


def durable(**options: Any) -> Harness:
    harness = Harness(durable=True, **options)
    harness.neighborhoods = {"near": [1, 2, 3]}
    return harness


def restarted(harness: Harness, records: list[Record] | None = None) -> Harness:
    """A new broker with what the old one had stored; nobody is connected."""
    again = durable(limits=harness.core._state.limits)
    again.clock.now = harness.clock.now
    again._sub_ids = harness._sub_ids
    again.core.restore(harness.records if records is None else records)
    again.settle()
    return again


def durable_client(harness: Harness, name: str = "c", *, clean: bool = True) -> Client:
    return harness.connect(name, flags=0x02 if clean else 0, properties=EXPIRY)


def kinds(packets: list[Any]) -> list[str]:
    return [type(one).__name__ for one in packets]


def test_without_a_store_nothing_is_recorded() -> None:
    harness = Harness()
    client = durable_client(harness)
    client.subscribe("t", 2)
    client.send(encode.publish("t", b"x", qos=2, packet_id=1, retain=True))
    assert harness.records == []


def test_sessions_without_expiry_are_not_recorded() -> None:
    harness = durable()
    client = harness.connect("c")
    client.subscribe("t", 2)
    client.send(encode.publish("t", b"x", qos=2, packet_id=1))
    assert harness.records == []


def test_every_promise_waits_for_the_store() -> None:
    harness = durable()
    harness.stores = False
    client = durable_client(harness)
    assert client.take() == []
    harness.store()
    assert kinds(client.take()) == ["ConnAckPacket"]
    client.send(encode.subscribe(("t", 2)))
    assert client.take() == []
    harness.store()
    assert kinds(client.take()) == ["SubAckPacket"]
    client.send(encode.publish("t", b"x", qos=2, packet_id=7))
    assert client.take() == []
    harness.store()
    received, pubrec = client.take()
    assert kinds([received, pubrec]) == ["PublishPacket", "PubRecPacket"]
    client.send(encode.ack(0x62, 7), encode.ack(0x50, received.packet_id))
    assert client.take() == []
    harness.store()
    assert kinds(client.take()) == ["PubCompPacket", "PubRelPacket"]
    client.send(encode.unsubscribe("t"))
    assert client.take() == []
    harness.store()
    assert kinds(client.take()) == ["UnsubAckPacket"]


def test_pings_and_qos_0_do_not_wait_for_the_store() -> None:
    harness = durable()
    client = durable_client(harness)
    client.subscribe("#", 1)
    client.take()
    harness.stores = False
    client.send(
        encode.publish("t", b"1", qos=1, packet_id=1), encode.publish("t", b"2"), encode.PINGREQ
    )
    assert kinds(client.take()) == ["PublishPacket", "PublishPacket", "PingRespPacket"]


def test_unanswered_publishes_count_against_the_receive_maximum() -> None:
    harness = durable(limits=BrokerLimits(receive_maximum=2))
    durable_client(harness, "s").subscribe("t", 1)
    client = harness.connect("c")
    client.take()
    harness.stores = False
    for number in (1, 2):
        client.send(encode.publish("t", b"x", qos=1, packet_id=number))
    assert not client.is_closed
    harness.store()
    client.send(encode.publish("t", b"x", qos=1, packet_id=3))
    assert not client.is_closed
    client.send(encode.publish("t", b"x", qos=1, packet_id=4))
    client.send(encode.publish("t", b"x", qos=1, packet_id=5))
    end = client.take()[-1]
    assert end.reason_code == mqtt5.DisconnectReasonCode.RECEIVE_MAX_EXCEEDED


def test_everything_comes_back() -> None:
    harness = durable()
    client, publisher = durable_client(harness), harness.connect("p")
    client.subscribe("plain/+", 2, properties=b"\x0b\x05")
    client.subscribe_near("s/#", "near", nsid=9, options=1)
    client.lose()
    publisher.send(encode.publish("plain/1", b"1", qos=1, packet_id=1))
    near = encode.user("peid", "2") + b"\x02\x00\x00\x00\x3c"
    publisher.send(encode.publish("s/t", b"2", qos=2, packet_id=2, properties=near))
    publisher.send(encode.publish("kept", b"3", retain=True))
    harness.advance(10)
    again = restarted(harness)
    assert again.core.neighborhoods.slots_by_sub_id == {1: 0}
    back = durable_client(again, clean=False)
    connack, first, second = back.take()
    assert connack.session_present
    assert (first.payload, first.subscription_ids, int(first.qos)) == (b"1", [5], 1)
    assert (second.payload, int(second.qos)) == (b"2", 1)
    assert second.user_properties == [("nsid", "9"), ("peid", "2")]
    assert second.message_expiry_interval == 50
    back.subscribe("kept")
    assert [one.payload for one in back.messages()] == [b"3"]


def test_neighborhoods_come_back_with_a_slot_and_get_their_members_later() -> None:
    harness = durable()
    client = durable_client(harness)
    client.subscribe_near("s/#", "near", nsid=1)
    again = restarted(harness)
    back = durable_client(again, clean=False)
    inside = encode.publish("s/t", b"x", properties=encode.user("peid", "2"))
    back.send(inside)
    assert back.messages() == []
    builder = again.memberships.begin_generation()
    for slot in again.core.neighborhoods.slots_by_sub_id.values():
        builder.add(slot, np.array([1, 2, 3]))
    again.memberships.switch(builder)
    back.send(inside)
    assert len(back.messages()) == 1


def test_a_qos_2_message_keeps_its_identifier_over_a_kill() -> None:
    harness = durable()
    client = durable_client(harness)
    client.subscribe("t", 2)
    client.send(encode.publish("t", b"x", qos=2, packet_id=1))
    (message,) = client.messages()
    back = durable_client(restarted(harness), clean=False)
    (repeated,) = back.messages()
    assert (repeated.packet_id, repeated.duplicate) == (message.packet_id, True)


def test_after_pubrec_only_pubrel_comes_over_a_kill() -> None:
    harness = durable()
    client = durable_client(harness)
    client.subscribe("t", 2)
    client.send(encode.publish("t", b"x", qos=2, packet_id=1))
    (message,) = client.messages()
    client.send(encode.ack(0x50, message.packet_id))
    back = durable_client(restarted(harness), clean=False)
    assert kinds(back.take()) == ["ConnAckPacket", "PubRelPacket"]


def test_a_qos_2_publish_is_not_doubled_over_a_kill() -> None:
    harness = durable()
    reader, client = durable_client(harness, "r"), durable_client(harness)
    reader.subscribe("t", 1)
    reader.lose()
    client.send(encode.publish("t", b"x", qos=2, packet_id=1))
    again = restarted(harness)
    back = durable_client(again, clean=False)
    back.send(encode.publish("t", b"x", qos=2, packet_id=1, duplicate=True))
    assert len(durable_client(again, "r", clean=False).messages()) == 1
    back.send(encode.ack(0x62, 1))
    third = restarted(again, [*harness.records, *again.records])
    session = third.core.sessions.find("c")
    assert session is not None
    assert session.incoming.received == set()


def test_what_was_acknowledged_does_not_come_again() -> None:
    harness = durable()
    client = durable_client(harness)
    client.subscribe("t", 1)
    client.send(encode.publish("t", b"x", qos=1, packet_id=1))
    (message,) = client.messages()
    client.send(encode.ack(0x40, message.packet_id))
    assert durable_client(restarted(harness), clean=False).messages() == []


def test_a_session_that_ended_stays_ended() -> None:
    harness = durable()
    client = durable_client(harness)
    client.subscribe("t", 1)
    client.send(encode.packet(0xE0, b"\x00\x05\x11\x00\x00\x00\x00"))
    again = restarted(harness)
    assert len(again.core.sessions) == 0
    assert again.core.index.count == 0


def test_a_session_resumed_without_expiry_is_forgotten() -> None:
    harness = durable()
    durable_client(harness).lose()
    harness.connect("c", flags=0)
    assert len(restarted(harness).core.sessions) == 0


def test_expiry_goes_on_over_a_restart() -> None:
    harness = durable()
    durable_client(harness).lose()
    harness.advance(3_000)
    again = restarted(harness)
    again.advance(599)
    assert len(again.core.sessions) == 1
    again.advance(2)
    assert len(again.core.sessions) == 0


def test_a_broker_that_is_killed_again_and_again_does_not_prolong_sessions() -> None:
    harness = durable()
    durable_client(harness)
    again = restarted(harness)
    again.advance(3_000)
    third = restarted(again, [*harness.records, *again.records])
    third.advance(601)
    assert len(third.core.sessions) == 0


def test_a_will_is_sent_once_whatever_happens() -> None:
    harness = durable()
    watch = durable_client(harness, "w")
    watch.subscribe("gone", 1)
    will = encode.will("gone", b"bye", b"\x18\x00\x00\x00\x0a")
    harness.connect("c", flags=0x0E, properties=EXPIRY, rest=will)
    # Killed while the client is connected: for the new broker it is gone from the start.
    again = restarted(harness)
    again.advance(11)
    assert len(durable_client(again, "w", clean=False).messages()) == 1
    third = restarted(again, [*harness.records, *again.records])
    third.advance(20)
    session = third.core.sessions.find("w")
    assert session is not None
    assert len(session.outgoing.queue) == 1


def test_the_whole_state_can_be_stored_afresh() -> None:
    harness = durable()
    client = durable_client(harness)
    client.subscribe("t", 2)
    client.send(
        encode.publish("t", b"1", qos=2, packet_id=1), encode.publish("t", b"2", qos=1, packet_id=2)
    )
    client.send(encode.publish("kept", b"3", retain=True))
    client.lose()
    state = list(chain.from_iterable(harness.core.durable_parts()))
    again = restarted(harness, state)
    assert sorted(map(repr_of, chain.from_iterable(again.core.durable_parts()))) == sorted(
        map(repr_of, state)
    )
    back = durable_client(again, clean=False)
    assert [one.payload for one in back.messages()] == [b"1", b"2"]


def repr_of(record: Record) -> str:
    """Records compare by value but for messages, which compare by identity."""
    text = repr(record)
    if isinstance(record, MessageQueued):
        text = text.replace(repr(record.message), message_to_bytes(record.message).hex())
    return text.split(" object at ")[0]
