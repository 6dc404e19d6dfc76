"""A session with very many subscriptions ends at once, and they are taken out piece by piece."""

from __future__ import annotations

import itertools

import pytest

from broker.core.journal import SubscriptionRemoved
from broker.core.sessions.session_table import ENDED_AT_ONCE
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

EXPIRY = b"\x11\x00\x00\x0e\x10"
MANY = 4 * ENDED_AT_ONCE
FILTERS = [f"t/{number}" for number in range(MANY)]


def subscribe(client: Client, filters: list[str], share: str = "") -> None:
    for start in range(0, len(filters), 100):
        some = [(f"{share}{one}", 1) for one in filters[start : start + 100]]
        client.send(encode.subscribe(*some))


def holder(harness: Harness, share: str = "") -> Client:
    client = harness.connect("c", properties=EXPIRY)
    subscribe(client, FILTERS, share)
    assert harness.core.index.count == MANY
    return client


def left(harness: Harness) -> int:
    return harness.core.index.count


@pytest.mark.parametrize("count", [ENDED_AT_ONCE, ENDED_AT_ONCE + 1])
def test_few_are_taken_out_at_once(count: int) -> None:
    harness = Harness()
    client = harness.connect("c")
    subscribe(client, FILTERS[:count])
    client.lose()
    assert left(harness) == count - ENDED_AT_ONCE
    harness.advance(0)
    assert left(harness) == 0


def test_no_call_takes_out_more_than_some() -> None:
    harness = Harness()
    clients = [harness.connect(name) for name in "ab"]
    for client in clients:
        subscribe(client, FILTERS)
    counts = [left(harness)]
    for client in clients:
        client.lose()
        counts.append(left(harness))
    while counts[-1]:
        harness.core.tick()
        counts.append(left(harness))
    steps = [before - after for before, after in itertools.pairwise(counts)]
    assert max(steps) == ENDED_AT_ONCE
    assert harness.core.shares.subscriptions.used == 0


def test_nothing_is_delivered_or_queued_for_a_session_that_has_ended() -> None:
    harness = Harness()
    client, publisher = holder(harness), harness.connect("p")
    client.lose()
    harness.core.end_session(harness.core.sessions.of_client_id("c")[0])
    harness.settle()
    assert left(harness) > 0
    for topic in (FILTERS[0], FILTERS[-1]):
        publisher.send(encode.publish(topic, b"x", qos=1, packet_id=1), encode.publish(topic, b"y"))
    assert harness.core.shares.queues.used == 0
    assert not any(harness.core.counters.drops.values())
    harness.advance(0)
    assert left(harness) == 0


def test_the_same_client_id_begins_anew_at_once() -> None:
    harness = Harness(durable=True)
    client, publisher = holder(harness), harness.connect("p")
    client.lose()
    del harness.records[:]
    again = harness.connect("c", properties=EXPIRY)  # a clean start
    assert not again.take()[0].session_present
    assert left(harness) > 0
    subscribe(again, FILTERS[:10])
    again.take()
    publisher.send(encode.publish(FILTERS[5], b"x", qos=1, packet_id=1))
    assert [one.topic for one in again.messages()] == [FILTERS[5]]
    harness.advance(0)
    assert left(harness) == 10
    publisher.send(encode.publish(FILTERS[6], b"x", qos=1, packet_id=2))
    assert [one.topic for one in again.messages()] == [FILTERS[6]]
    # One record says that all is over; none that comes later takes from the new session.
    assert not any(isinstance(one, SubscriptionRemoved) for one in harness.records)
    restarted = Harness(durable=True)
    restarted.core.restore(harness.records)
    (session,) = restarted.core.sessions
    assert sorted(session.subscriptions) == sorted(FILTERS[:10])


def test_neighborhoods_are_unregistered_at_once_and_may_come_back() -> None:
    harness = Harness()
    harness.neighborhoods = {"near": [1, 2, 3]}
    client, publisher = holder(harness), harness.connect("p")
    for nsid in range(1, 51):
        client.subscribe_near("n/t", "near", nsid=nsid, options=1)
    subscribe(client, [f"later/{number}" for number in range(MANY)])
    client.lose()
    again = harness.connect("c", properties=EXPIRY)
    assert sorted(harness.forgotten) == list(range(1, 51))
    assert left(harness) > MANY
    assert list(harness.core.neighborhoods) == []
    about = encode.user("peid", "2")
    again.take()
    publisher.send(encode.publish("n/t", b"x", properties=about))
    assert not again.messages()
    # The registry gives the same neighborhood the same number again.
    harness._sub_ids = 0
    again.subscribe_near("n/t", "near", nsid=1)
    again.take()
    harness.advance(0)
    assert left(harness) == 1
    assert list(harness.core.neighborhoods.slots_by_sub_id) == [1]
    publisher.send(encode.publish("n/t", b"x", properties=about))
    assert len(again.messages()) == 1
    assert sorted(harness.forgotten) == list(range(1, 51))
    assert harness.core.shares.pairs.used == 3


def test_another_member_of_a_group_gets_the_message() -> None:
    harness = Harness()
    client = holder(harness, "$share/g/")
    other, publisher = harness.connect("o"), harness.connect("p")
    other.subscribe(f"$share/g/{FILTERS[0]}", 1)
    client.lose()
    harness.core.end_session(harness.core.sessions.of_client_id("c")[0])
    harness.settle()
    assert left(harness) > 1
    for number in range(1, 5):
        publisher.send(encode.publish(FILTERS[0], b"x", qos=1, packet_id=number))
    assert len(other.messages()) == 4
    assert not any(harness.core.counters.drops.values())
