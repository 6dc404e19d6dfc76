"""What tests of memberships in Redis share: generations, subscriptions, a resolver of tables."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from broker.codec.reason_codes import ReasonCode
from broker.core.limits import BrokerLimits
from broker.core.sessions.session import Session
from broker.core.subscribe.subscription import Subscription, SubscriptionTerms
from broker.core.verdicts import Identity
from broker.generations.change_counts import LastNotified, SwitchOutcome
from broker.resolver.live_resolver import ComingMembers
from broker.resolver.resolver_requests import NeighborhoodRefusedError, VersionResolution
from redis_link.connection.client import RedisClient
from redis_link.generation.generation_push import PushSource
from redis_link.generation.local_push import push_pairs
from schemas.generation import FROM_FILE, GenerationFacts, RegistryCoverage

Members = Mapping[int, Iterable[int]]  # subId -> peids
REGISTRY = "registry of the test"


def push(
    client: RedisClient,
    members: Members,
    *,
    up_to: int | None = None,
    version: int = 1,
    coverage: RegistryCoverage | None = None,
) -> int:
    """A generation with these members; one of a file unless it covers something. Its number."""
    sub_ids = [sub_id for sub_id, peids in members.items() for _ in peids]
    all_peids = [peid for peids in members.values() for peid in peids]
    if coverage is None:
        coverage = FROM_FILE if up_to is None else RegistryCoverage(REGISTRY, up_to)
    block = (np.array(all_peids, np.int64), np.array(sub_ids, np.int64))
    report = push_pairs(client, PushSource(version, "a test", coverage), [block])
    if report.cleanup is not None:
        report.cleanup.cancel()
    return report.generation


class Subscriptions:
    """Stands for the core: neighborhoods in force, by slot."""

    def __init__(self) -> None:
        self.by_slot: dict[int, Subscription] = {}

    def add(self, slot: int, sub_id: int) -> Subscription:
        """A subscription whose neighborhood is called after its subId."""
        session = Session(Identity(f"client {slot}", None), BrokerLimits())
        stages = [{"cats": ["#"], "cond": "I"}]
        descriptor = json.dumps({"refs": [sub_id], "stages": stages})
        terms = SubscriptionTerms(topic_filter="t", nsid=1, sub_id=sub_id, descriptor=descriptor)
        subscription = Subscription(session, terms)
        subscription.slot = slot
        self.by_slot[slot] = subscription
        return subscription

    def in_force(self) -> list[Subscription]:
        return list(self.by_slot.values())

    def slots_by_sub_id(self) -> dict[int, int]:
        return {one.terms.sub_id or 0: slot for slot, one in self.by_slot.items()}

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self.in_force())

    def at(self, slot: int) -> Subscription | None:
        return self.by_slot.get(slot)

    def members_changed(self) -> None:
        """Nobody is served."""

    def refuse_messages_under(self, subscriptions: Iterable[Subscription]) -> None:
        """Nobody publishes."""


class ResolverOfTables:
    """Gives the members that a table names for each version and descriptor."""

    def __init__(self) -> None:
        self.version = 0
        self.coming: int | None = None
        self.tables: dict[int, dict[str, list[int]]] = {}
        self.broken = False
        self.asked: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def know(self, version: int, subscription: Subscription, peids: Iterable[int]) -> None:
        """The members of a subscription on a version."""
        descriptor = subscription.terms.descriptor or ""
        self.tables.setdefault(version, {})[descriptor] = sorted(peids)

    async def prepare(self, version: int) -> bool:
        self.coming = version
        return version != self.version

    async def drop_coming(self) -> None:
        self.coming = None

    def switch(self) -> None:
        self.version, self.coming = self.coming or self.version, None

    async def resolve_in_force(self, descriptor: str) -> VersionResolution:
        peids = self.tables[self.version][descriptor]
        return VersionResolution(self.version, descriptor, "hash", np.array(peids, np.int64))

    async def resolve_coming(self, descriptor: str) -> ComingMembers:
        self.asked.append(descriptor)
        await asyncio.sleep(0)
        self.meanwhile()
        if self.broken:
            raise NeighborhoodRefusedError(ReasonCode.UNSPECIFIED_ERROR, "not just now")
        version = self.coming or self.version
        peids = self.tables[version].get(descriptor)
        return ComingMembers(
            version, np.array(peids or [], np.int64), lacks_references=peids is None
        )


class SilentNotices:
    """Nobody listens."""

    def __init__(self) -> None:
        self.outcomes: list[SwitchOutcome] = []
        self.known: LastNotified | None = None

    def notice_readers(self) -> dict[int, str]:
        return {}

    async def last_notified(self) -> LastNotified | None:
        return self.known

    def switched(self, outcome: SwitchOutcome, facts: GenerationFacts | None) -> None:  # noqa: ARG002 - its shape
        self.outcomes.append(outcome)

    async def store_notified(self) -> None:
        """Nothing to note."""
