"""Very many retained messages: a subscription finds them piece by piece, others in between."""

from __future__ import annotations

import pytest

from broker.core.counters import Refusal
from broker.core.limits import BrokerLimits
from broker.core.message import Message
from broker.core.retained.retained_delivery import SEARCHED_AT_ONCE, RetainedSearch
from broker.core.retained.retained_messages import RetainedStore
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness
from tests.broker_core.traced_memory import traced

# More than one go may search, by far.
MANY = 12 * SEARCHED_AT_ONCE


def scene() -> tuple[Harness, Client, Client]:
    """A broker with many retained messages, each about the entity of its number."""
    harness = Harness()
    publisher, client = harness.connect("p"), harness.connect("c")
    harness.core.receive(publisher.connection, b"".join(retained(number) for number in range(MANY)))
    harness.settle()
    # So many are worked off in several turns.
    harness.advance(0)
    assert harness.core.retained.count == MANY
    client.take()
    return harness, publisher, client


def retained(number: int, payload: bytes = b"x") -> bytes:
    about = encode.user("peid", str(number))
    return encode.publish(f"r/{number % 7}/{number}", payload, properties=about, retain=True)


def numbers(client: Client) -> list[int]:
    return [int(one.topic.rpartition("/")[2]) for one in client.messages()]


def test_what_matches_nothing_is_searched_in_pieces() -> None:
    harness, publisher, client = scene()
    harness.neighborhoods = {"last": [MANY - 1], "far": [MANY + 5]}
    assert client.subscribe_near("r/#", "far", nsid=1).reason_codes
    assert client.connection.backlog, "everything was searched in one go"
    # Meanwhile others are served, and this client too.
    publisher.send(encode.publish("r/live", b"x", properties=encode.user("peid", str(MANY + 5))))
    (live,) = client.messages()
    assert live.topic == "r/live"
    harness.advance(1)
    assert not client.connection.backlog
    assert client.messages() == []
    client.subscribe_near("r/#", "last", nsid=2)
    harness.advance(1)
    assert numbers(client) == [MANY - 1]


def test_each_comes_once_and_what_comes_meanwhile_too() -> None:
    harness, publisher, client = scene()
    client.subscribe("r/#")
    first = numbers(client)
    assert 0 < len(first) < MANY // 2
    left = sorted({*range(MANY)} - {*first})
    gone, changed = left[0], left[-1]
    publisher.send(encode.publish(f"r/{gone % 7}/{gone}", b"", retain=True))
    publisher.send(retained(changed, b"new"), retained(MANY, b"born"))
    live = [(one.topic, one.payload) for one in client.messages() if not one.retain]
    assert [payload for _, payload in live] == [b"", b"new", b"born"]
    harness.advance(5)
    later = client.messages()
    assert not client.connection.backlog
    # What was born after the subscription came live and does not come again.
    came = first + [int(one.topic.rpartition("/")[2]) for one in later]
    assert sorted(came) == sorted({*range(MANY)} - {gone})
    (as_retained,) = [one for one in later if one.topic.endswith(f"/{changed}")]
    assert as_retained.payload == b"new"


def test_a_client_that_leaves_ends_the_search() -> None:
    harness, _, client = scene()
    client.subscribe("r/#")
    client.send(encode.unsubscribe("r/#"))
    client.take()
    harness.advance(1)
    assert client.messages() == []
    assert not client.connection.backlog


@pytest.mark.parametrize("pattern", ["+/" * 100 + "nothing", "#", "+/#", "+"])
def test_levels_without_a_message_count_as_searched(pattern: str) -> None:
    """3,500 deep topics are 700,000 levels: a filter that matches none of them took 0.4 s."""
    store = RetainedStore(BrokerLimits())
    for number in range(50):
        store.put(Message(f"{number}" + "/a" * 100, b"x"))
    found, left = store.search(pattern, store.births).next_levels(200)
    assert len(found) <= 2
    assert left == (0 if "/" in pattern or pattern == "#" else 150)


def test_a_search_that_finds_nothing_goes_on_in_pieces() -> None:
    harness = Harness()
    publisher, client = harness.connect("p"), harness.connect("c")
    for number in range(100):
        publisher.send(encode.publish(f"{number}" + "/a" * 150, b"x", retain=True))
    client.subscribe("+/" * 150 + "nothing")
    assert client.connection.backlog, "everything was searched in one go"
    harness.advance(1)
    assert not client.connection.backlog
    assert client.messages() == []


def test_a_search_that_waits_holds_little_however_many_topics_there_are() -> None:
    """Each held 8 bytes for every topic of the level where it was: 15 GiB in all connections."""
    store = RetainedStore(BrokerLimits())
    for number in range(20_000):
        store.put(Message(f"wide/{number}", b"x"))

    def searches() -> list[RetainedSearch]:
        begun = [store.search(pattern, store.births) for pattern in ("#", "+/+") * 50]
        for one in begun:
            one.next_levels(SEARCHED_AT_ONCE)
        return begun

    assert traced(searches) < 100 * 1_000


def test_a_search_goes_on_where_it_was_after_many_were_removed() -> None:
    store = RetainedStore(BrokerLimits())
    for number in range(2_000):
        store.put(Message(f"wide/{number}", b"x"))
    search = store.search("wide/+", store.births)
    found, _ = search.next_levels(501)
    for number in range(1_990):
        store.remove(f"wide/{number}")
    rest, left = search.next_levels(SEARCHED_AT_ONCE)
    assert [one.message is None for one in found] == [True] * 500
    assert [one.message.topic for one in rest if one.message] == [
        f"wide/{number}" for number in range(1_990, 2_000)
    ]
    # What is gone takes no steps, but for a few.
    assert left > 0


@pytest.mark.parametrize("spare", [0, -1])
def test_what_waits_for_retained_messages_to_be_read_is_bounded_in_all(spare: int) -> None:
    """Subscriptions that ended meanwhile too, with filters as long as they like."""
    names = [f"r/{number}" + "x" * 5_000 for number in range(20)]

    def subscribe_all(limit: int) -> tuple[Harness, Client]:
        harness = Harness(limits=BrokerLimits(input_bytes=limit))
        publisher, client = harness.connect("p"), harness.connect("c")
        publisher.send(*(encode.publish(name, b"y", retain=True) for name in names))
        client.take()
        harness.core.pause_writing(client.connection)
        for name in names:
            client.send(encode.subscribe((name, 0)))
            client.send(encode.unsubscribe(name))
        return harness, client

    harness, client = subscribe_all(1_000_000)
    held = harness.core.input_budget.bytes
    assert 20 * 5_000 < held < 20 * 6_500
    harness.core.resume_writing(client.connection)
    harness.settle()
    harness.advance(0)
    assert not client.connection.backlog
    assert harness.core.input_budget.bytes == 0
    harness, client = subscribe_all(held + spare)
    assert client.is_closed is (spare < 0)
    assert harness.core.counters.refusals[Refusal.INPUT_BYTES] == (spare < 0)
    assert not harness.clients[next(iter(harness.clients))].is_closed


def test_members_of_a_backlog_count() -> None:
    harness = Harness()
    harness.neighborhoods = {"near": range(1_000)}
    publisher, client = harness.connect("p"), harness.connect("c")
    publisher.send(encode.publish("t", b"y", retain=True, properties=encode.user("peid", "1")))
    harness.core.pause_writing(client.connection)
    client.subscribe_near("t", "near", nsid=1)
    assert harness.core.input_budget.bytes > 8_000
    client.lose()
    assert harness.core.input_budget.bytes == 0
