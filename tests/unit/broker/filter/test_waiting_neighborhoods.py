"""Neighborhoods whose members are not known yet: what becomes of messages meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import mqtt5
import numpy as np
import pytest

from broker.codec.reason_codes import ReasonCode
from broker.core.counters import Drop
from broker.core.subscribe.subscription import Subscription, SubscriptionTerms
from broker.generations.waiting_neighborhoods import (
    AdoptionResolver,
    UnresolvedCause,
    WaitingNeighborhoods,
)
from broker.resolver.live_resolver import ComingMembers
from broker.resolver.resolver_requests import NeighborhoodRefusedError, VersionResolution
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

HELD = "a neighborhood under this topic waits for the resolver, try again later"


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.neighborhoods = {"near": [7]}
    return harness


def restored(harness: Harness, client: Client) -> Subscription:
    """A neighborhood under ``near/#`` as it is after a start: in force, without members."""
    client.subscribe_near("near/#", "near", 1, options=1)
    [subscription] = list(harness.core.neighborhoods)
    harness.memberships.switch(harness.memberships.begin_generation())
    client.take()
    return subscription


def about(topic: str, qos: int = 0, peid: int = 7) -> bytes:
    properties = encode.user("peid", str(peid))
    return encode.publish(topic, b"x", qos=qos, packet_id=1 if qos else None, properties=properties)


def test_messages_about_entities_under_its_filter_are_refused(harness: Harness) -> None:
    client, other = harness.connect("c"), harness.connect("o")
    subscription = restored(harness, client)
    # Topics that the fast path knows already.
    other.send(about("near/a"), about("far/a"))
    harness.core.neighborhoods.refuse_messages_under([subscription])
    [answer] = other.send(about("near/a", qos=1))
    assert isinstance(answer, mqtt5.PubAckPacket)
    assert answer.reason_code == ReasonCode.UNSPECIFIED_ERROR
    assert answer.reason_str == HELD
    other.send(about("near/a"))
    assert harness.core.counters.drops[Drop.NEIGHBORHOOD_WAITS] == 1
    for allowed in (about("far/a", qos=1), encode.publish("near/a", b"x", qos=1, packet_id=1)):
        [answer] = other.send(allowed)
        assert answer.reason_code == ReasonCode.NO_MATCHING_SUBSCRIBERS
    assert client.messages() == []
    assert harness.core.neighborhoods.add_members(subscription, subscription.slot, np.array([7]))
    harness.core.neighborhoods.refuse_messages_under([])
    [answer] = other.send(about("near/a", qos=1))
    assert answer.reason_code == ReasonCode.SUCCESS
    other.send(about("near/a"))
    assert len(client.messages()) == 2
    assert harness.core.counters.drops[Drop.NEIGHBORHOOD_WAITS] == 1


def test_one_that_ends_meanwhile_gets_no_members(harness: Harness) -> None:
    client = harness.connect("c")
    subscription = restored(harness, client)
    slot = subscription.slot
    client.send(encode.unsubscribe("near/#"))
    assert harness.core.neighborhoods.at(slot) is None
    assert not harness.core.neighborhoods.add_members(subscription, slot, np.array([7]))
    assert harness.core.neighborhoods.at(1_000) is None


class Resolver:
    """Answers as set up: members, or an error; or not at all."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def resolve_in_force(self, descriptor: str) -> VersionResolution:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return VersionResolution(1, descriptor, "hash", np.array(answer, np.int64))

    async def resolve_coming(self, descriptor: str) -> ComingMembers:
        if not self.answers:
            await asyncio.Event().wait()
        return ComingMembers(1, (await self.resolve_in_force(descriptor)).peids)


def refusal(*, is_passing: bool = False, lacks_references: bool = False) -> Exception:
    return NeighborhoodRefusedError(
        ReasonCode.UNSPECIFIED_ERROR,
        "not now",
        is_passing=is_passing,
        lacks_references=lacks_references,
    )


def test_it_is_asked_for_until_it_is_answered(harness: Harness) -> None:
    client, other = harness.connect("c"), harness.connect("o")
    subscription = restored(harness, client)
    resolver = Resolver(refusal(is_passing=True), refusal(is_passing=True), [7, 8])

    async def scenario() -> None:
        waiting = WaitingNeighborhoods(resolver, harness.core.neighborhoods)
        waiting.replace({subscription.slot: True})
        for _ in range(2):
            await waiting.ask_again()
            assert (waiting.unanswered, waiting.refused) == (1, 0)
            [answer] = other.send(about("near/a", qos=1))
            assert answer.reason_str == HELD
        await waiting.ask_again()
        assert (waiting.unanswered, waiting.refused) == (0, 0)

    asyncio.run(scenario())
    other.send(about("near/a", peid=8))
    assert len(client.messages()) == 1


def test_one_that_the_resolver_fails_on_stops_nobody_else(harness: Harness) -> None:
    client, other = harness.connect("c"), harness.connect("o")
    subscription = restored(harness, client)
    resolver = Resolver(refusal(), refusal(lacks_references=True))

    async def scenario() -> None:
        waiting = WaitingNeighborhoods(resolver, harness.core.neighborhoods)
        waiting.replace({subscription.slot: True})
        await waiting.ask_again()
        assert (waiting.unanswered, waiting.refused) == (0, 1)
        [answer] = other.send(about("near/a", qos=1))
        assert answer.reason_code == ReasonCode.NO_MATCHING_SUBSCRIBERS
        await waiting.ask_again()
        assert len(resolver.answers) == 1, "not again at once"
        waiting._entries[0].next_at = 0
        await waiting.ask_again()
        assert (waiting.unanswered, waiting.refused) == (0, 0), "no reference is an answer"

    asyncio.run(scenario())


def test_a_start_waits_as_long_as_answers_come() -> None:
    terms = SubscriptionTerms(topic_filter="t", nsid=1, sub_id=1, descriptor="d")

    async def scenario() -> None:
        silent = AdoptionResolver(Resolver(), patience=0.05)
        assert await silent.resolve(terms, is_start=True) is UnresolvedCause.UNANSWERED
        some = AdoptionResolver(Resolver([1], refusal(), refusal(is_passing=True)), patience=60)
        found = [await some.resolve(terms, is_start=True) for _ in range(3)]
        assert isinstance(found[0], ComingMembers)
        assert found[1:] == [UnresolvedCause.FAILED, UnresolvedCause.UNANSWERED]

    asyncio.run(scenario())
