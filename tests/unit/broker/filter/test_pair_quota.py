"""Pairs of entity and subscription: a quota for each client, each user and all together."""

from __future__ import annotations

from typing import Any

import mqtt5
import numpy as np
import pytest

from broker.codec.reason_codes import ReasonCode
from broker.core.counters import Refusal
from broker.core.limits import BrokerLimits
from broker.core.subscribe.subscribe_handler import MOST_AT_ONCE
from broker.core.subscribe.subscribe_queue import CHUNK
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness


def scene(**limits: int) -> Harness:
    harness = Harness(limits=BrokerLimits(**limits))
    harness.neighborhoods = {str(size): range(size) for size in (1, 9, 10, 11, 20, 21)}
    return harness


def connect(
    harness: Harness, client_id: str, user: str | None = None, host: str | None = None
) -> Client:
    named: dict[str, Any] = {} if user is None else {"flags": 0x82, "rest": encode.text(user)}
    client = harness.connect(client_id, host, **named)
    client.take()
    return client


def code_of(answer: Any) -> ReasonCode:
    [code] = answer.reason_codes
    return ReasonCode(code)


@pytest.mark.parametrize(("size", "is_allowed"), [(9, True), (10, True), (11, False)])
def test_the_pairs_of_one_client(size: int, is_allowed: bool) -> None:
    harness = scene(pairs=30)
    client, other = connect(harness, "c"), connect(harness, "o")
    for nsid in (1, 2):
        client.subscribe_near("t", "10", nsid)
    answer = client.subscribe_near("t", str(size), 3)
    assert code_of(answer).is_error != is_allowed
    held = 20 + size * is_allowed
    assert len(harness.memberships) == harness.core.shares.pairs.used == held
    assert harness.core.counters.refusals[Refusal.PAIRS] == (not is_allowed)
    if not is_allowed:
        assert code_of(answer) is ReasonCode.QUOTA_EXCEEDED
        assert answer.reason_str == (
            "this client's neighborhoods hold 20 pairs of entity and subscription; "
            "with these 11 there are more than 30"
        )
        assert harness.forgotten == [3]
    assert not code_of(other.subscribe_near("t", "21", 1)).is_error, "another has its own"


def test_twenty_million_pairs_by_one_subscribe() -> None:
    """The attack: 400 filters with a neighborhood of 50,000 entities."""
    harness = Harness()
    harness.neighborhoods = {"large": range(50_000)}
    client = connect(harness, "c")
    filters = [(f"t/{number}", 0) for number in range(400)]
    properties = encode.user("neighborhood", "large")
    [answer] = client.send(encode.subscribe(*filters, properties=properties))
    assert {int(code) for code in answer.reason_codes} == {ReasonCode.QUOTA_EXCEEDED}
    assert "20000000" in answer.reason_str
    assert len(harness.memberships) == harness.core.shares.pairs.used == 0
    assert harness.core.index.count == 0
    assert harness.forgotten == [*range(1, 401)]


def test_one_user_gets_half_and_others_half_of_the_rest() -> None:
    harness = scene(total_pairs=40)
    one, again = connect(harness, "c1", "a"), connect(harness, "c2", "a")
    assert code_of(one.subscribe_near("t", "21", 1)) is ReasonCode.QUOTA_EXCEEDED
    assert not code_of(one.subscribe_near("t", "20", 1)).is_error
    answer = again.subscribe_near("t", "1", 1)
    assert code_of(answer) is ReasonCode.QUOTA_EXCEEDED
    assert "of this user" in answer.reason_str
    other = connect(harness, "c3", "b")
    assert code_of(other.subscribe_near("t", "11", 1)) is ReasonCode.QUOTA_EXCEEDED
    assert not code_of(other.subscribe_near("t", "10", 1)).is_error
    assert harness.core.counters.refusals[Refusal.TOTAL_PAIRS] == 3
    one.send(encode.unsubscribe("t"))
    assert harness.core.shares.pairs.used == 10
    assert not code_of(again.subscribe_near("t", "1", 1)).is_error


def test_clients_without_a_user_name_share_the_pairs_of_their_address() -> None:
    harness = scene(total_pairs=40)
    greedy = [connect(harness, f"g{number}", host="192.0.2.1") for number in range(2)]
    assert not code_of(greedy[0].subscribe_near("t", "20", 1)).is_error
    answer = greedy[1].subscribe_near("t", "1", 1)
    assert code_of(answer) is ReasonCode.QUOTA_EXCEEDED
    assert "of this user or address" in answer.reason_str
    other = connect(harness, "o", host="192.0.2.2")
    assert code_of(other.subscribe_near("t", "11", 1)) is ReasonCode.QUOTA_EXCEEDED
    assert not code_of(other.subscribe_near("t", "10", 1)).is_error


def test_what_is_replaced_does_not_count() -> None:
    harness = scene(pairs=20)
    client = connect(harness, "c")
    client.subscribe_near("t", "11", 1)
    assert not code_of(client.subscribe_near("u", "20", 1)).is_error
    assert not code_of(client.subscribe_near("u", "20", 1)).is_error
    assert code_of(client.subscribe_near("u", "21", 1)).is_error
    assert harness.core.shares.pairs.used == 20, "the one before is in force"
    client.lose()
    assert harness.core.shares.pairs.used == 0


def test_a_new_world_may_exceed_the_quota_and_nothing_is_cut() -> None:
    harness = scene(pairs=20)
    client = connect(harness, "c")
    client.subscribe_near("t", "10", 1)
    client.subscribe_near("t", "9", 2)
    one, two = list(harness.core.neighborhoods)
    builder = harness.memberships.begin_generation(is_other_world=True)
    builder.add(one.slot, np.arange(21))
    builder.add(two.slot, np.arange(11))
    harness.memberships.switch(builder)
    harness.core.neighborhoods.members_changed()
    assert harness.core.shares.pairs.used == client.connection.session.pairs == 32
    client.send(encode.publish("t", b"x", properties=encode.user("peid", "20")))
    assert len(client.messages()) == 1, "the neighborhood is as the world has it"
    assert code_of(client.subscribe_near("t", "1", 3)) is ReasonCode.QUOTA_EXCEEDED
    harness.neighborhoods["10"] = range(21)
    assert not code_of(client.subscribe_near("t", "10", 1)).is_error, "what it has it may keep"
    client.send(encode.unsubscribe("t"))
    assert harness.core.shares.pairs.used == 0


LARGE = 12 * CHUNK
assert LARGE > MOST_AT_ONCE


def begin(client: Client, descriptor: str) -> None:
    properties = encode.user("neighborhood", descriptor) + encode.user("nsid", "1")
    assert client.send(encode.subscribe(("t", 0), properties=properties)) == []


def is_answered(client: Client) -> bool:
    return any(isinstance(one, mqtt5.SubAckPacket) for one in client.packets)


def turn(harness: Harness) -> None:
    harness.core.tick()
    harness.settle()


def test_large_neighborhoods_of_several_clients_enter_in_turns() -> None:
    harness = Harness()
    harness.neighborhoods = {"huge": range(LARGE), "large": range(3 * CHUNK)}
    many = [connect(harness, f"m{number}", "many") for number in range(5)]
    for one in many:
        begin(one, "huge")
    single = connect(harness, "s", "single")
    begin(single, "large")
    turns = 0
    while not is_answered(single):
        turn(harness)
        turns += 1
    assert turns <= 2 * 3 + 1, "one turn for it, one for all the others"
    assert not any(map(is_answered, many))
    while not all(map(is_answered, many)):
        turn(harness)
        turns += 1
    assert turns == 5 * 12 + 3


def test_pairs_on_their_way_in_count() -> None:
    harness = Harness(limits=BrokerLimits(total_pairs=3 * LARGE))
    harness.neighborhoods = {"huge": range(LARGE), "small": [1]}
    one, again = connect(harness, "c1", "a"), connect(harness, "c2", "a")
    begin(one, "huge")
    [answer] = again.send(
        encode.subscribe(("t", 0), properties=encode.user("neighborhood", "huge"))
    )
    assert code_of(answer) is ReasonCode.QUOTA_EXCEEDED
    assert harness.core.shares.pairs.used == LARGE
    one.lose()
    turn(harness)
    assert harness.core.shares.pairs.used == 0
    begin(again, "huge")
    while not is_answered(again):
        turn(harness)
    assert harness.core.shares.pairs.used == LARGE
