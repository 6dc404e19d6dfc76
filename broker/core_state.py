"""What the parts of the core share. Each part takes what it needs from here, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.access import AccessControl
from broker.access_desk import AccessDesk
from broker.counters import Counters
from broker.effects import Outbox
from broker.fair_share import Shares, make_shares
from broker.gateway import GatewayRules
from broker.input_budget import InputBudget
from broker.journal import Journal
from broker.limits import BrokerLimits
from broker.memberships import Memberships
from broker.outlet import Outlet
from broker.retained import RetainedStore
from broker.routes import Routes
from broker.session_table import SessionTable
from broker.slots import SlotTable
from broker.subscription_index import SubscriptionIndex
from broker.tickets import Tickets
from broker.timers import Timers
from broker.topic_tree import TopicTree


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreState:
    """Made once, for one ``Core``."""

    clock: Callable[[], float]
    limits: BrokerLimits
    counters: Counters
    outbox: Outbox
    outlet: Outlet
    journal: Journal
    tickets: Tickets
    timers: Timers
    access: AccessDesk
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
    tickets = Tickets()
    tree = TopicTree()
    counters = Counters()
    routes = Routes(tree, gateway, limits, counters)
    slots = SlotTable(memberships)
    return CoreState(
        clock=clock,
        limits=limits,
        counters=counters,
        outbox=outbox,
        outlet=Outlet(outbox, journal),
        journal=journal,
        tickets=tickets,
        timers=Timers(),
        access=AccessDesk(access, outbox, tickets, limits.verdict_bytes),
        memberships=memberships,
        slots=slots,
        routes=routes,
        index=SubscriptionIndex(tree, routes, slots),
        retained=RetainedStore(limits),
        sessions=SessionTable(limits),
        shares=make_shares(limits),
        input_budget=InputBudget(limits.input_bytes),
    )
