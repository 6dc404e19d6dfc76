"""What the parts of the core share: its tables, counters, limits and deadlines."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from broker.codec.gateway_rules import GatewayRules
from broker.core.counters import Counters, Drop
from broker.core.journal import Journal
from broker.core.limits import BrokerLimits, InputBudget, Shares
from broker.core.requests import Forget, LookUp, Outbox, OutputGate
from broker.core.retained.retained_messages import RetainedStore
from broker.core.sessions.session_table import SessionTable
from broker.core.subscribe.routes import EntityKeys, Routes
from broker.core.subscribe.subscription import SlotTable, Subscription
from broker.core.subscribe.subscription_writer import SubscriptionIndex
from broker.core.subscribe.topic_tree import TopicTree
from broker.core.trace import Trace
from broker.core.verdicts import AccessControl, VerdictCache
from broker.filter.memberships import Memberships, Slots

if TYPE_CHECKING:
    from broker.core.message import Message
    from broker.core.sessions.session import Session

# Whether the world in force has an entity; None when that is not known, or not to be told.
KnowsEntity: TypeAlias = Callable[[int], bool | None]

# Steps of cleaning memberships at a time, and seconds to the next, with and without more to do.
_SWEEP_STEPS: Final = 64
_SWEEP_SOON: Final = 0.005
_SWEEP_LATER: Final = 1.0
# A delivery that is not acknowledged is stored after so many seconds, or twice as many.
_UNSAVED_SECONDS: Final = 0.001


class CoreState:
    """The shared state of one ``Core``; no public attribute is ever assigned again."""

    __slots__ = (
        "_is_watching", "access", "clock", "counters", "index", "input_budget", "journal", "keys",
        "knows_entity", "limits", "memberships", "named_arrivals", "outbox", "output_gate",
        "retained", "routes", "sessions", "shares", "slots", "timers", "trace",
    )  # fmt: skip

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        limits: BrokerLimits,
        memberships: Memberships,
        access: AccessControl,
        gateway: GatewayRules,
        durable: bool,
        knows_entity: KnowsEntity,
    ) -> None:
        self.clock = clock
        self.knows_entity = knows_entity
        self.limits = limits
        self.memberships = memberships
        self.counters = Counters()
        self.trace = Trace(clock)
        self.timers = Timers()
        self.outbox = Outbox()
        self.journal = Journal(enabled=durable)
        self.output_gate = OutputGate(self.outbox, self.journal)
        self.access = VerdictCache(access, self.outbox, limits.verdict_bytes)
        tree = TopicTree()
        self.routes = Routes(tree, gateway, limits, self.counters, self.trace)
        self.keys = EntityKeys(self.outbox, self.routes, limits.cached_key_bytes)
        self.slots = SlotTable(memberships)
        self.index = SubscriptionIndex(tree, self.routes, self.slots)
        self.retained = RetainedStore(limits)
        self.sessions = SessionTable(limits)
        self.shares = Shares(limits)
        self.input_budget = InputBudget(limits.input_bytes)
        # Subscriptions by name that came into force: what they hold is to be compared with what
        # the name stands for.
        self.named_arrivals: dict[Subscription, None] = {}
        # Whether a deadline is set for deliveries that are not stored.
        self._is_watching = False
        self.timers.at(clock() + _SWEEP_LATER, self.sweep)

    def count_drop(self, session: Session, message: Message, cause: Drop) -> None:
        """Count a message that a session does not get."""
        self.counters.drops[cause] += 1
        if self.trace.is_on:
            self.trace.dropped(session, message, cause)

    def soon(self, action: Callable[[], None]) -> None:
        """Have ``action`` called at the next ``Core.tick``, after packets of other clients."""
        self.timers.at(self.clock(), action)

    def watch_unsaved(self) -> None:
        """Have deliveries that are not acknowledged soon stored."""
        if not self._is_watching:
            self._is_watching = True
            self.timers.at(self.clock() + _UNSAVED_SECONDS, self._flush_old)

    def _flush_old(self) -> None:
        self._is_watching = self.journal.flush_old()
        if self._is_watching:
            self.timers.at(self.clock() + _UNSAVED_SECONDS, self._flush_old)

    def sweep(self) -> None:
        """Clean the memberships a little, now and again later."""
        has_more = self.memberships.sweep(_SWEEP_STEPS)
        delay = _SWEEP_SOON if has_more else _SWEEP_LATER
        self.timers.at(self.clock() + delay, self.sweep)

    def forget(self, *sub_ids: int) -> None:
        """Request that registrations of subscriptions that have ended are removed."""
        self.outbox.requests.append(Forget(sub_ids))

    def ask_memberships(
        self, peids: tuple[int, ...], answer: Callable[[Mapping[int, Slots], str | None], None]
    ) -> None:
        """Request the slots of entities."""
        self.outbox.requests.append(LookUp(peids, answer))


class Timer:
    """A deadline that can be cancelled."""

    __slots__ = ("_owner", "action", "when")

    def __init__(self, when: float, action: Callable[[], None], owner: Timers) -> None:
        self.when = when
        self.action: Callable[[], None] | None = action
        self._owner = owner

    def cancel(self) -> None:
        """Let the deadline pass without effect."""
        if self.action is not None:
            self.action = None
            self._owner.count_cancelled()


class Timers:
    """Deadlines in order of time, then of creation. ``run`` is called with the time."""

    __slots__ = ("_cancelled", "_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = 0
        self._cancelled = 0

    def at(self, when: float, action: Callable[[], None]) -> Timer:
        """Have ``action`` called once ``when`` has come."""
        timer = Timer(when, action, self)
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, timer))
        return timer

    def count_cancelled(self) -> None:
        """Count a cancelled deadline, and remove all of these once they are the majority.

        A session that comes and goes cancels one each time, with a deadline weeks away.
        """
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def next_deadline(self) -> float | None:
        """Return when ``run`` has something to do, or an earlier time; None: never."""
        return self._heap[0][0] if self._heap else None

    def run(self, now: float) -> None:
        """Call everything that is due; what that adds is due at the next call at the earliest."""
        due: list[Timer] = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        for timer in due:
            action = timer.action
            if action is None:
                self._cancelled = max(0, self._cancelled - 1)
            else:
                # Cleared first: a deadline that has passed can no longer be cancelled.
                timer.action = None
                action()

    def __len__(self) -> int:
        """Return the number of deadlines kept, cancelled ones included."""
        return len(self._heap)
