"""What the parts of the core share. Each part takes what it needs from here, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.core.counters import Counters
from broker.core.fair_share import Shares, make_shares
from broker.core.journal import Journal
from broker.core.limits import BrokerLimits
from broker.core.output_gate import OutputGate
from broker.core.publish.gateway import GatewayRules
from broker.core.publish.routes import Routes
from broker.core.requests import Outbox, PendingRequests
from broker.core.retained.retained_messages import RetainedStore
from broker.core.sessions.input_budget import InputBudget
from broker.core.sessions.session_table import SessionTable
from broker.core.subscribe.subscription_index import SubscriptionIndex
from broker.core.subscribe.topic_tree import TopicTree
from broker.core.timers import Timers
from broker.core.verdict_cache import VerdictCache
from broker.core.verdicts import AccessControl
from broker.filter.memberships import Memberships
from broker.filter.slots import SlotTable


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreState:
    """Made once, for one ``Core``."""

    clock: Callable[[], float]
    limits: BrokerLimits
    counters: Counters
    outbox: Outbox
    output_gate: OutputGate
    journal: Journal
    pending_requests: PendingRequests
    timers: Timers
    access: VerdictCache
    memberships: Memberships
    slots: SlotTable
    routes: Routes
    index: SubscriptionIndex
    retained: RetainedStore
    sessions: SessionTable
    shares: Shares
    input_budget: InputBudget


def make_state(
    *,
    clock: Callable[[], float],
    limits: BrokerLimits,
    memberships: Memberships,
    access: AccessControl,
    gateway: GatewayRules,
    durable: bool,
) -> CoreState:
    """The shared state of a new core."""
    outbox = Outbox()
    journal = Journal(enabled=durable)
    pending_requests = PendingRequests()
    tree = TopicTree()
    counters = Counters()
    routes = Routes(tree, gateway, limits, counters)
    slots = SlotTable(memberships)
    return CoreState(
        clock=clock,
        limits=limits,
        counters=counters,
        outbox=outbox,
        output_gate=OutputGate(outbox, journal),
        journal=journal,
        pending_requests=pending_requests,
        timers=Timers(),
        access=VerdictCache(access, outbox, pending_requests, limits.verdict_bytes),
        memberships=memberships,
        slots=slots,
        routes=routes,
        index=SubscriptionIndex(tree, routes, slots),
        retained=RetainedStore(limits),
        sessions=SessionTable(limits),
        shares=make_shares(limits),
        input_budget=InputBudget(limits.input_bytes),
    )
