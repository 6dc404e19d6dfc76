"""Filters, descriptors and retained topics count as they are in memory, for each and for all."""

from __future__ import annotations

from itertools import chain, product

import pytest

from broker.core.counters import Drop, Refusal
from broker.core.limits import BrokerLimits
from broker.core.message import Message
from broker.core.requests import Resolve
from broker.core.retained.retained_messages import RetainedStore
from broker.core.subscribe.subscription_writer import subscription_bytes
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness
from tests.broker_core.traced_memory import traced

QUOTA_EXCEEDED = 0x97
EXPIRY = b"\x11\x00\x00\x0e\x10"
DEEP = "/a" * 198
SIZE = subscription_bytes("0" + DEEP, None)


def as_user(harness: Harness, name: str, user: str) -> Client:
    client = harness.connect(name, flags=0x80, rest=encode.text(user), properties=EXPIRY)
    client.take()
    return client


def codes(client: Client, *patterns: str) -> list[int]:
    (suback,) = client.send(encode.subscribe(*((pattern, 0) for pattern in patterns)))
    return [int(code) for code in suback.reason_codes]


def deep(*numbers: int) -> list[str]:
    return [f"{number}{DEEP}" for number in numbers]


@pytest.mark.parametrize(("spare", "third"), [(-1, QUOTA_EXCEEDED), (0, 0), (1, 0)])
def test_subscriptions_of_one_client_are_bounded_by_bytes(spare: int, third: int) -> None:
    harness = Harness(limits=BrokerLimits(subscription_bytes=3 * SIZE + spare))
    client = harness.connect("c")
    client.take()
    (suback,) = client.send(encode.subscribe(*((one, 0) for one in deep(1, 2, 3))))
    assert [int(code) for code in suback.reason_codes] == [0, 0, third]
    refused = third != 0
    assert (suback.reason_str is not None) == refused
    assert harness.core.counters.refusals[Refusal.SUBSCRIPTION_BYTES] == refused
    # A renewal costs nothing, a short one may fit, and what is given back makes room.
    assert codes(client, *deep(1)) == [0]
    client.send(encode.unsubscribe(*deep(1)))
    client.take()
    assert codes(client, *deep(4)) == [0]


@pytest.mark.parametrize(("spare", "third"), [(-1, QUOTA_EXCEEDED), (0, 0), (1, 0)])
def test_subscriptions_of_one_user_are_half_of_all(spare: int, third: int) -> None:
    harness = Harness(limits=BrokerLimits(total_subscription_bytes=6 * SIZE + spare))
    first, second = as_user(harness, "a", "greedy"), as_user(harness, "b", "greedy")
    assert codes(first, *deep(1, 2)) == [0, 0]
    assert codes(second, *deep(3)) == [third]
    assert harness.core.counters.refusals[Refusal.TOTAL_SUBSCRIPTION_BYTES] == (third != 0)
    assert codes(second, *deep(4, 5)) == [QUOTA_EXCEEDED] * 2
    other = as_user(harness, "c", "quiet")
    assert codes(other, *deep(6)) == [0], "another user has room"


def test_the_end_of_a_session_gives_its_bytes_back() -> None:
    harness = Harness()
    client = harness.connect("c")
    client.subscribe("a/b")
    client.subscribe("$share/g/c")
    assert harness.core.shares.subscriptions.used > 2_000
    client.lose()
    assert harness.core.shares.subscriptions.used == 0


def test_descriptors_count() -> None:
    descriptor = "N" * 10_000
    harness = Harness(limits=BrokerLimits(subscription_bytes=25_000))
    harness.neighborhoods[descriptor] = [1]
    client = harness.connect("c")
    answers = [client.subscribe_near("t", descriptor, nsid=number) for number in (1, 2, 3)]
    assert [int(one.reason_codes[0]) for one in answers] == [0, 0, QUOTA_EXCEEDED]
    # Another neighborhood in the place of one that is held is no further one.
    assert int(client.subscribe_near("t", descriptor, nsid=1).reason_codes[0]) == 0


@pytest.mark.parametrize(("spare", "code"), [(-1, QUOTA_EXCEEDED), (0, 0), (1, 0)])
@pytest.mark.parametrize("limit", ["subscription_bytes", "total_subscription_bytes"])
def test_a_longer_descriptor_in_the_place_of_a_short_one_counts(
    limit: str, spare: int, code: int
) -> None:
    """A thousand short neighborhoods could each be replaced by one of 65 kB."""
    size = subscription_bytes("t", "S") + subscription_bytes("t", "L" * 5_000)
    most = size + spare if limit == "subscription_bytes" else 2 * size + spare
    harness = Harness(limits=BrokerLimits(**{limit: most}))
    harness.neighborhoods |= {"S": [1], "L" * 5_000: [1]}
    client = harness.connect("c")
    for number in (1, 2):
        client.subscribe_near("t", "S", nsid=number)
    answer = client.subscribe_near("t", "L" * 5_000, nsid=1)
    assert int(answer.reason_codes[0]) == code
    assert harness.core.counters.refusals[Refusal[limit.upper()]] == (code != 0)
    assert harness.core.shares.subscriptions.used <= size
    assert int(client.subscribe_near("t", "S", nsid=1).reason_codes[0]) == 0


def test_room_that_others_took_while_a_neighborhood_was_resolved() -> None:
    size = subscription_bytes("t", "N")
    harness = Harness(limits=BrokerLimits(total_subscription_bytes=2 * size + 10))
    harness.neighborhoods["N"] = [1]
    first, second = harness.connect("a"), harness.connect("b")
    harness.held = (Resolve,)
    for client in (first, second):
        client.take()
        harness.core.receive(
            client.connection,
            encode.subscribe(("t", 0), properties=encode.user("neighborhood", "N")),
        )
    harness.settle()
    harness.held = ()
    harness.answer_waiting()
    found = [int(one.take()[-1].reason_codes[0]) for one in (first, second)]
    assert found == [0, QUOTA_EXCEEDED]
    assert harness.forgotten == [2]
    assert harness.core.shares.subscriptions.used == size


def test_what_is_restored_counts_the_same() -> None:
    harness = Harness(durable=True)
    client = harness.connect("c", flags=0, properties=EXPIRY)
    for pattern in (*deep(1, 2), "a/+/#", "$share/g/x"):
        client.subscribe(pattern)
    client.send(encode.publish("kept/" + "a/" * 50, b"x", retain=True))
    again = Harness(durable=True)
    again.core.restore(chain.from_iterable(harness.core.durable_parts()))
    assert again.core.shares.subscriptions.used == harness.core.shares.subscriptions.used
    assert again.core.retained.bytes == harness.core.retained.bytes


SHAPES = {
    "deep": [f"{number}" + "/ab" * 150 for number in range(300)],
    "flat": [f"t/{number}" for number in range(3_000)],
    "long": [f"{number}" + "x" * 20_000 for number in range(50)],
    "not ASCII": [f"{number}😀" + "x" * 20_000 for number in range(50)],
    "branching": ["/".join(names) for names in product(("aa", "bb"), repeat=11)],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_filters_take_is_no_more_than_is_counted(shape: str) -> None:
    harness = Harness()
    client = harness.connect("c")
    packets = [encode.subscribe((pattern, 0)) for pattern in SHAPES[shape]]

    def subscribe() -> Harness:
        for packet in packets:
            harness.core.receive(client.connection, packet)
        client.connection.out.clear()
        harness.core.outbox.writes.clear()
        return harness

    assert traced(subscribe) <= harness.core.shares.subscriptions.used * 1.05


@pytest.mark.parametrize("shape", SHAPES)
def test_what_retained_topics_take_is_no_more_than_is_counted(shape: str) -> None:
    """Before, a level cost 344 bytes and counted nothing: 4 MB of topics became 530 MB."""
    store = RetainedStore(BrokerLimits())

    def keep() -> RetainedStore:
        for topic in SHAPES[shape]:
            store.put(Message("".join(list(topic)), b"x"))
        return store

    assert traced(keep) <= store.bytes * 1.05


def test_levels_of_retained_topics_count() -> None:
    measured = RetainedStore(BrokerLimits())
    measured.put(Message(deep(1)[0], b"x"))
    assert measured.bytes > 199 * 100
    harness = Harness(limits=BrokerLimits(retained_bytes=4 * measured.bytes))
    client = harness.connect("c")
    client.take()
    for number, code in ((1, 0x10), (2, 0x10), (3, QUOTA_EXCEEDED)):
        packet = encode.publish(deep(number)[0], b"x", retain=True, qos=1, packet_id=number)
        (answer,) = client.send(packet)
        assert int(answer.reason_code) == code
    # Under levels that are there already there is room for a message.
    assert harness.core.retained.bytes == 2 * measured.bytes
    client.send(encode.publish(deep(1)[0], b"", retain=True))
    assert harness.core.retained.bytes == measured.bytes
    assert harness.core.counters.drops[Drop.RETAINED_FULL] == 0


@pytest.mark.parametrize("limit", ["retained_messages", "retained_bytes"])
@pytest.mark.parametrize("is_restored", [False, True])
def test_one_user_leaves_room_for_retained_messages_of_others(
    limit: str, is_restored: bool
) -> None:
    """Of eight messages one user has four, the next two: also when they were restored."""
    single = RetainedStore(BrokerLimits())
    single.put(Message("aa", b"x"))
    most = 8 if limit == "retained_messages" else 8 * single.bytes
    harness = Harness(durable=True, limits=BrokerLimits(**{limit: most}))

    def kept(client: Client, prefix: str) -> int:
        packets = [
            encode.publish(f"{prefix}{number}", b"x", retain=True, qos=1, packet_id=number)
            for number in range(1, 7)
        ]
        return sum(int(one.reason_code) != QUOTA_EXCEEDED for one in client.send(*packets))

    assert kept(as_user(harness, "a", "greedy"), "a") == 4
    if is_restored:
        state = chain.from_iterable(harness.core.durable_parts())
        harness = Harness(durable=True, limits=BrokerLimits(**{limit: most}))
        harness.core.restore(state)
    again = as_user(harness, "b", "greedy")
    assert kept(again, "b") == 0, "another client of the same user"
    assert kept(as_user(harness, "c", "quiet"), "c") == 2
    # What is there may be replaced, and what is removed makes room.
    (answer,) = again.send(encode.publish("a1", b"y", retain=True, qos=1, packet_id=1))
    assert int(answer.reason_code) == 0x10
    for number in (1, 2, 3, 4):
        again.send(encode.publish(f"a{number}", b"", retain=True))
    again.take()
    assert kept(again, "b") == 3


def test_subscribes_whose_retained_messages_are_not_read_are_bounded() -> None:
    harness = Harness(limits=BrokerLimits(subscriptions=50))
    client = harness.connect("c")
    client.send(encode.publish("t", b"x", retain=True))
    harness.core.pause_writing(client.connection)
    refused = 0
    for _ in range(5):
        (suback,) = client.send(encode.subscribe(*(("t", 0),) * 20))
        refused += {int(code) for code in suback.reason_codes} == {QUOTA_EXCEEDED}
    assert refused == 2
    assert len(client.connection.backlog) == 60
    assert harness.core.counters.refusals[Refusal.WAITING_RETAINED] == 40
