"""What outlives a connection: subscriptions, flow control, verdicts, expiry."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.core.fair_share import Shares, make_shares
from broker.core.journal import SessionSaved, Will
from broker.core.limits import BrokerLimits
from broker.core.sessions.incoming_flow import IncomingFlow
from broker.core.sessions.outgoing_flow import DELIVERY_BYTES, OutgoingFlow
from broker.core.timers import Timer
from broker.core.verdicts import Action, Identity, Verdict, owner_of

if TYPE_CHECKING:
    from broker.core.sessions.connection import Connection
    from broker.core.subscribe.subscription import Subscription, SubscriptionKey

NEVER_EXPIRES: Final = 0xFFFF_FFFF


class Session:
    """The state of one client id of one user. Compared by identity.

    ``direct`` is the connection while QoS 0 copies may be put into its output as they are: it
    is reading, has no aliases and no packet limit of its own. None: take the long way.
    """

    __slots__ = (
        "_will",
        "by_filter",
        "connection",
        "direct",
        "expires_at",
        "expiry_interval",
        "expiry_timer",
        "has_ended",
        "host",
        "identity",
        "incoming",
        "is_recorded",
        "last_position",
        "name",
        "neighborhoods",
        "next_nsid",
        "outgoing",
        "pair_account",
        "pairs",
        "queue_account",
        "subscription_account",
        "subscription_bytes",
        "subscriptions",
        "verdicts",
        "waiting_verdicts",
        "will_at",
        "will_timer",
    )  # fmt: skip

    def __init__(
        self,
        identity: Identity,
        limits: BrokerLimits,
        host: str | None = None,
        shares: Shares | None = None,
    ) -> None:
        shares = make_shares(limits) if shares is None else shares
        # Without a user name those of its address; they stay when its client moves.
        owner = owner_of(identity, host)
        self.queue_account = shares.queues.account_of(owner)
        self.pair_account = shares.pairs.account_of(owner)
        # Pairs of entity and subscription that its neighborhoods have in the filter.
        self.pairs = 0
        self.subscription_account = shares.subscriptions.account_of(owner)
        # What its subscriptions take in memory.
        self.subscription_bytes = 0
        self.identity = identity
        # What names it among all sessions, and in Redis.
        self.name = identity.session_name
        # The address that its client came from last, as far as quotas tell addresses apart.
        self.host = host
        # Whether it is over: it gets nothing any more, though subscriptions of it may be left.
        self.has_ended = False
        self.connection: Connection | None = None
        self.direct: Connection | None = None
        self.subscriptions: dict[SubscriptionKey, Subscription] = {}
        # Those with a neighborhood: how many there are, and which stand under a filter.
        self.neighborhoods = 0
        self.by_filter: dict[str, dict[Subscription, None]] = {}
        self.next_nsid = 1
        self.incoming = IncomingFlow(limits.receive_maximum, self.queue_account)
        self.outgoing = OutgoingFlow(limits, self.queue_account)
        self.expiry_interval = 0
        self.expires_at: float | None = None
        self.expiry_timer: Timer | None = None
        # Whether it is kept beyond this process.
        self.is_recorded = False
        self.last_position = 0
        self._will: Will | None = None
        self.will_at: float | None = None
        self.will_timer: Timer | None = None
        self.verdicts: dict[tuple[Action, str], Verdict] = {}
        self.waiting_verdicts: dict[tuple[Action, str], list[Callable[[Verdict], None]]] = {}

    @property
    def client_id(self) -> str:
        """The client id that the client gave or was given."""
        return self.identity.client_id

    @property
    def will(self) -> Will | None:
        """What is published when the client is gone."""
        return self._will

    @will.setter
    def will(self, will: Will | None) -> None:
        self.queue_account.add(will_bytes(will) - will_bytes(self._will))
        self._will = will

    def count_in(self, subscription: Subscription) -> None:
        """Count a subscription that is in force from now on."""
        self._count(subscription.bytes)
        terms = subscription.terms
        if terms.nsid is not None:
            self.neighborhoods += 1
            self.by_filter.setdefault(terms.topic_filter, {})[subscription] = None

    def count_out(self, subscription: Subscription) -> None:
        """Count a subscription that is in force no longer."""
        self._count(-subscription.bytes)
        terms = subscription.terms
        if terms.nsid is not None:
            self.neighborhoods -= 1
            under = self.by_filter[terms.topic_filter]
            del under[subscription]
            if not under:
                del self.by_filter[terms.topic_filter]

    def _count(self, size: int) -> None:
        self.subscription_bytes += size
        self.subscription_account.add(size)

    @property
    def owner(self) -> str:
        """Return whom its quotas and turns count for: user name, else address, else client id."""
        if self.identity.user_name is not None:
            return f"user {self.identity.user_name}"
        return f"client {self.client_id}" if self.host is None else f"address {self.host}"


def will_bytes(will: Will | None) -> int:
    """Return the bytes that keeping a will costs."""
    return 0 if will is None else will.message.size + DELIVERY_BYTES


def record_of(session: Session) -> SessionSaved:
    """The session as the journal keeps it."""
    return SessionSaved(
        session.name,
        session.identity.user_name,
        session.expiry_interval,
        session.expires_at,
        session.will,
        session.will_at,
        session.host,
    )
