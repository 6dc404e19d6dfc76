"""Neighborhoods of many members: entered piece by piece, in force all at once."""

from __future__ import annotations

from collections.abc import Callable

import mqtt5
import pytest

from broker.core.subscribe.subscribe_handler import MOST_AT_ONCE
from broker.core.subscribe.subscribe_queue import CHUNK
from broker.filter.memberships_memory import MemoryMemberships
from broker.filter.memberships_redis import RedisMemberships
from tests.broker_core import encode
from tests.broker_core.harness import Harness
from tests.broker_core.heavy_subscribe import about, finish, near, switch_to, turn

MEMBERS = 5 * CHUNK + 1
LAST = MEMBERS - 1
Memberships = MemoryMemberships | RedisMemberships


@pytest.fixture(params=[MemoryMemberships, RedisMemberships], ids=["memory", "redis"])
def harness(request: pytest.FixtureRequest) -> Harness:
    make: Callable[[], Memberships] = request.param
    harness = Harness(memberships=make())
    harness.neighborhoods = {
        "heavy": range(MEMBERS),
        "light": [7],
        "edge": range(MOST_AT_ONCE),
        "over": range(MOST_AT_ONCE + 1),
    }
    return harness


def test_others_come_between_and_nothing_is_delivered_before_all_members_are_in(
    harness: Harness,
) -> None:
    client, other = harness.connect("c"), harness.connect("o")
    assert client.send(near("heavy")) == []
    other.take()
    for _ in range(5):
        # Some of these are in the table already.
        assert isinstance(
            other.send(about(0), about(LAST), encode.PINGREQ)[-1], mqtt5.PingRespPacket
        )
        turn(harness)
        assert client.messages() == []
    assert finish(harness, client) == 1
    client.take()
    other.send(about(0), about(LAST), about(MEMBERS))
    assert len(client.messages()) == 2


def test_the_client_itself_goes_on_but_for_subscribing(harness: Harness) -> None:
    client = harness.connect("c")
    client.send(near("heavy"))
    (pong,) = client.send(encode.PINGREQ)
    assert isinstance(pong, mqtt5.PingRespPacket)
    assert client.send(near("light", 2), encode.unsubscribe("t")) == []
    finish(harness, client)
    kinds = [type(one).__name__ for one in client.take()]
    assert kinds[-3:] == ["SubAckPacket", "SubAckPacket", "UnsubAckPacket"]
    client.send(about(7))
    assert client.messages() == []
    assert harness.core.index.count == 0


@pytest.mark.parametrize("how", ["lose", "disconnect", "taken over"])
def test_a_client_that_leaves_midway_leaves_nothing_behind(harness: Harness, how: str) -> None:
    expiry = b"\x11\x00\x00\x0e\x10"
    client = harness.connect("c", properties=expiry)
    client.send(near("heavy"))
    turn(harness)
    if how == "lose":
        client.lose()
    elif how == "disconnect":
        client.send(b"\xe0\x00")
    else:
        harness.connect("c", flags=0, properties=expiry)
    turn(harness)
    assert harness.forgotten == [1]
    assert harness.core.index.count == 0
    assert len(harness.core.neighborhoods.slots_by_sub_id) == 0
    # Its slot is free again once it is swept, and what lay under it reaches nobody else.
    other = harness.connect("o")
    other.send(near("light"))
    other.take()
    other.send(about(0), about(7))
    assert len(other.messages()) == 1


def test_the_one_that_is_replaced_stays_in_force_until_then(harness: Harness) -> None:
    client = harness.connect("c")
    client.send(near("light"))
    client.take()
    client.send(near("heavy"))
    turn(harness)
    client.send(about(7, b"old"), about(8, b"not yet"))
    assert [one.payload for one in client.messages()] == [b"old"]
    finish(harness, client)
    client.take()
    client.send(about(8, b"new"))
    assert [one.payload for one in client.messages()] == [b"new"]
    assert harness.core.index.count == 1


def test_a_generation_that_is_switched_to_midway_has_all_members(harness: Harness) -> None:
    memberships: Memberships = harness.memberships
    client = harness.connect("c")
    client.send(near("heavy"))
    turn(harness)
    builder = memberships.begin_generation()
    turn(harness)
    switch_to(memberships, builder)
    finish(harness, client)
    client.take()
    client.send(about(0), about(CHUNK), about(LAST))
    assert len(client.messages()) == 3
    assert list(memberships.look_up(0) or ()) == [0], "entered once"


@pytest.mark.parametrize("folded", [True, False])
def test_one_that_is_complete_while_a_generation_is_built_is_in_it(
    harness: Harness, folded: bool
) -> None:
    memberships: Memberships = harness.memberships
    client = harness.connect("c")
    client.send(near("heavy"))
    turn(harness)
    builder = memberships.begin_generation()
    finish(harness, client)
    if folded:
        while builder.fold_late(500):
            pass
        assert not builder.late, "the switch has nothing left to enter"
    switch_to(memberships, builder)
    client.take()
    client.send(about(0), about(LAST))
    assert len(client.messages()) == 2
    assert list(memberships.look_up(0) or ()) == [0], "entered once"


def test_many_at_once_share_the_turns(harness: Harness) -> None:
    """However many there are, a turn enters no more than a piece."""
    clients = [harness.connect(f"c{number}") for number in range(3)]
    for client in clients:
        client.take()
        client.send(near("heavy"))
    turns = [finish(harness, client) for client in clients]
    assert turns == [16, 1, 1], "a piece of each in turn"
    clients[0].send(about(LAST))
    assert all(len(one.messages()) == 1 for one in clients)


def test_several_filters_each_get_all_members(harness: Harness) -> None:
    client = harness.connect("c")
    properties = encode.user("neighborhood", "heavy") + encode.user("nsid", "1")
    properties += encode.user("nsid", "2")
    client.send(encode.subscribe(("t", 0), ("u", 0), properties=properties))
    client.take()
    finish(harness, client)
    (suback,) = client.take()
    assert suback.user_properties == [("nsid", "1"), ("nsid", "2")]
    for topic in ("t", "u"):
        client.send(encode.publish(topic, b"x", properties=encode.user("peid", str(LAST))))
    assert len(client.messages()) == 2


def test_a_small_one_is_in_force_at_once(harness: Harness) -> None:
    client = harness.connect("c")
    client.take()
    (suback,) = client.send(near("edge"))
    assert isinstance(suback, mqtt5.SubAckPacket)
    assert client.send(near("over", 2)) == []


def test_retained_messages_are_those_inside(harness: Harness) -> None:
    client, other = harness.connect("c"), harness.connect("o")
    for topic, peid in (("r/1", LAST), ("r/2", MEMBERS)):
        inside = encode.user("peid", str(peid))
        other.send(encode.publish(topic, b"x", retain=True, properties=inside))
    client.send(near("heavy", 1, "r/#"))
    finish(harness, client)
    assert [one.topic for one in client.messages()] == ["r/1"]
