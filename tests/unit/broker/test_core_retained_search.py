"""Very many retained messages: a subscription finds them piece by piece, others in between."""

from __future__ import annotations

from itertools import islice

import pytest

from broker.limits import BrokerLimits
from broker.message import Message
from broker.retained import SEARCHED_AT_ONCE, RetainedStore
from tests.broker_core import wire
from tests.broker_core.harness import Client, Harness

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
    about = wire.user("peid", str(number))
    return wire.publish(f"r/{number % 7}/{number}", payload, properties=about, retain=True)


def numbers(client: Client) -> list[int]:
    return [int(one.topic.rpartition("/")[2]) for one in client.messages()]


def test_what_matches_nothing_is_searched_in_pieces() -> None:
    harness, publisher, client = scene()
    harness.neighborhoods = {"last": [MANY - 1], "far": [MANY + 5]}
    assert client.subscribe_near("r/#", "far", nsid=1).reason_codes
    assert client.connection.backlog, "everything was searched in one go"
    # Meanwhile others are served, and this client too.
    publisher.send(wire.publish("r/live", b"x", properties=wire.user("peid", str(MANY + 5))))
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
    publisher.send(wire.publish(f"r/{gone % 7}/{gone}", b"", retain=True))
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
    client.send(wire.unsubscribe("r/#"))
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
    search = store.search(pattern)
    seen = list(islice(search, 200))
    assert sum(one is not None for one in seen) <= 2
    assert len(seen) == (200 if "/" in pattern or pattern == "#" else 51)


def test_a_search_that_finds_nothing_goes_on_in_pieces() -> None:
    harness = Harness()
    publisher, client = harness.connect("p"), harness.connect("c")
    for number in range(100):
        publisher.send(wire.publish(f"{number}" + "/a" * 150, b"x", retain=True))
    client.subscribe("+/" * 150 + "nothing")
    assert client.connection.backlog, "everything was searched in one go"
    harness.advance(1)
    assert not client.connection.backlog
    assert client.messages() == []
