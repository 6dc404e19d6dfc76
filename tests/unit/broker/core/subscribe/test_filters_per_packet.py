"""Many topic filters in one packet: linear work, and a limit for each packet."""

from __future__ import annotations

from typing import Any

import mqtt5
import pytest

from broker.core.counters import Refusal
from broker.core.limits import BrokerLimits
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

LIMIT = 20
QUOTA_EXCEEDED, IMPLEMENTATION_SPECIFIC = 0x97, 0x83


def filters(count: int) -> list[str]:
    return [f"f/{number}" for number in range(count)]


def answer(client: Client, packet: bytes) -> Any:
    (found,) = client.send(packet)
    return found


def connected(limits: BrokerLimits) -> tuple[Harness, Client]:
    harness = Harness(limits=limits)
    client = harness.connect("c")
    client.take()
    return harness, client


@pytest.mark.parametrize("count", [LIMIT - 1, LIMIT, LIMIT + 1])
def test_filters_in_one_subscribe(count: int) -> None:
    harness, client = connected(BrokerLimits(filters_per_packet=LIMIT))
    found = answer(client, encode.subscribe(*((one, 0) for one in filters(count)), packet_id=9))
    assert isinstance(found, mqtt5.SubAckPacket)
    assert found.packet_id == 9
    served = count <= LIMIT
    assert [int(code) for code in found.reason_codes] == [0 if served else QUOTA_EXCEEDED] * count
    assert harness.core.index.count == (count if served else 0)
    assert harness.core.counters.refusals[Refusal.FILTERS_PER_PACKET] == (0 if served else count)
    if not served:
        assert found.reason_str == f"{count} topic filters in one packet; at most 20 are accepted"
    (pong,) = client.send(encode.PINGREQ)
    assert isinstance(pong, mqtt5.PingRespPacket), "the client stays connected"


@pytest.mark.parametrize("count", [LIMIT - 1, LIMIT, LIMIT + 1])
def test_filters_in_one_unsubscribe(count: int) -> None:
    harness, client = connected(BrokerLimits(filters_per_packet=LIMIT))
    for one in filters(count):
        client.subscribe(one)
    found = answer(client, encode.unsubscribe(*filters(count), packet_id=9))
    assert isinstance(found, mqtt5.UnsubAckPacket)
    assert found.packet_id == 9
    served = count <= LIMIT
    # UNSUBACK has no code for a quota.
    expected = [0 if served else IMPLEMENTATION_SPECIFIC] * count
    assert [int(code) for code in found.reason_codes] == expected
    assert harness.core.index.count == (0 if served else count)
    assert (found.reason_str is None) == served


def test_a_client_that_wants_no_reasons_gets_the_codes_alone() -> None:
    harness = Harness(limits=BrokerLimits(filters_per_packet=1))
    client = harness.connect("c", properties=b"\x17\x00")
    client.take()
    found = answer(client, encode.unsubscribe("a", "b"))
    assert found.reason_str is None
    assert len(found.reason_codes) == 2


@pytest.mark.parametrize("packet", [encode.subscribe, encode.unsubscribe])
def test_a_packet_whose_last_filter_is_cut_off_is_malformed(packet: Any) -> None:
    _, client = connected(BrokerLimits(filters_per_packet=1))
    asked = [("a", 0)] * 3 if packet is encode.subscribe else ["a"] * 3
    whole = packet(*asked)
    cut = bytes((whole[0], whole[1] - 1)) + whole[2:-1]
    (goodbye,) = client.send(cut)
    assert int(goodbye.reason_code) == 0x81


class Steps(dict):  # type: ignore[type-arg]
    """The subscriptions of a session, which count how often one of them is looked at."""

    count = 0

    def get(self, *arguments: Any) -> Any:
        type(self).count += 1
        return super().get(*arguments)

    def values(self) -> Any:
        type(self).count += len(self)
        return super().values()

    def __iter__(self) -> Any:
        type(self).count += len(self)
        return super().__iter__()


@pytest.mark.parametrize("has_nsids", [False, True])
def test_an_unsubscribe_looks_at_each_subscription_a_few_times(has_nsids: bool) -> None:
    """Linear in the packet and in what the session holds: it was their product."""
    size = 500
    harness, client = connected(BrokerLimits())
    harness.neighborhoods["N"] = [1]
    for number in range(size):
        client.subscribe_near(f"f/{number}", "N", nsid=number)
    session = harness.core.sessions.find("c")
    assert session is not None
    session.subscriptions = Steps(session.subscriptions)
    Steps.count = 0
    nsids = b"".join(encode.user("nsid", str(number)) for number in range(size))
    properties = nsids if has_nsids else b""
    found = answer(client, encode.unsubscribe(*filters(size), properties=properties))
    assert {int(code) for code in found.reason_codes} == {0}
    assert harness.core.index.count == 0
    assert Steps.count <= 4 * size


def test_an_unsubscribe_names_neighborhoods_by_filter_and_nsid() -> None:
    harness, client = connected(BrokerLimits())
    harness.neighborhoods["N"] = [1]
    client.subscribe("a")
    for nsid, pattern in enumerate(["a", "a", "b"], start=1):
        client.subscribe_near(pattern, "N", nsid=nsid)
    client.take()
    # Of two nsids only the one under the filter that is named goes.
    nsids = encode.user("nsid", "2") + encode.user("nsid", "3")
    found = answer(client, encode.unsubscribe("a", "c", properties=nsids))
    assert [int(code) for code in found.reason_codes] == [0, 0x11]
    session = harness.core.sessions.find("c")
    assert session is not None
    assert set(session.subscriptions) == {"a", 1, 3}
    # Without nsids everything under the filter goes; named again there is nothing left.
    found = answer(client, encode.unsubscribe("a", "a", "b"))
    assert [int(code) for code in found.reason_codes] == [0, 0x11, 0]
    assert not session.subscriptions


@pytest.mark.parametrize("kind", ["subscribe", "unsubscribe", "neighborhoods"])
def test_a_small_packet_costs_nothing_for_what_the_session_holds(kind: str) -> None:
    """Each of 20,000 one-filter packets went over all 10,000 subscriptions: 8 s for all others."""
    size = 200
    harness, client = connected(BrokerLimits())
    harness.neighborhoods["N"] = [1]
    for number in range(size):
        client.subscribe_near(f"f/{number}", "N", nsid=number)
    session = harness.core.sessions.find("c")
    assert session is not None
    assert session.neighborhoods == size
    session.subscriptions = Steps(session.subscriptions)
    Steps.count = 0
    if kind == "subscribe":
        client.subscribe("f/1")
    else:
        nsid = encode.user("nsid", "1") if kind == "neighborhoods" else b""
        answer(client, encode.unsubscribe("f/1", properties=nsid))
        assert session.neighborhoods == size - 1
        assert "f/1" not in session.by_filter
    assert Steps.count <= 5


@pytest.mark.parametrize(
    "packet",
    [encode.subscribe(("t", 0)), encode.unsubscribe("t"), encode.PINGREQ, encode.ack(0x50, 9)],
)
def test_many_small_packets_in_one_read_give_way(packet: bytes) -> None:
    harness, client = connected(BrokerLimits())
    other = harness.connect("o")
    other.take()
    harness.core.receive(client.connection, packet * 20_000)
    harness.settle()
    assert client.connection.is_blocked
    assert 100 < len(client.take()) < 6_000
    assert other.send(encode.PINGREQ), "others are served before the rest"
    harness.advance(0)
    assert not client.connection.is_blocked
    assert harness.core.counters.turns_given_up > 2
