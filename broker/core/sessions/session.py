"""The state of a client that outlives its connection: subscriptions, flow control, expiry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.journal import Journal, MessageDone, MessageQueued, SessionSaved, Will
from broker.core.limits import BrokerLimits, Shares
from broker.core.message import DELIVERY_BYTES, Delivery
from broker.core.sessions.flow_control import OutgoingFlow
from broker.core.sessions.incoming_flow import IncomingFlow
from broker.core.verdicts import AccessSubject, Identity, owner_of

if TYPE_CHECKING:
    from broker.core.core_state import Timer
    from broker.core.sessions.connection import Connection
    from broker.core.subscribe.subscription import Subscription, SubscriptionKey

NEVER_EXPIRES: Final = 0xFFFF_FFFF


class Session(AccessSubject):
    """The state of one client id of one user. Compared by identity.

    ``direct`` is the connection while plain copies may be appended to its output: the client
    reads, has no aliases and no packet limit. ``direct_3`` is the same for a client of MQTT 3,
    whose copies have no properties. ``connection_changed`` alone sets them. Every copy
    reads the first: a property in its place costs 0.3 of 1.3 µs a PUBLISH (bench/broker/core.py).
    """

    __slots__ = (
        "_will",
        "by_filter",
        "direct",
        "direct_3",
        "expires_at",
        "expiry_interval",
        "expiry_timer",
        "has_ended",
        "host",
        "incoming",
        "is_recorded",
        "is_traced",
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
        super().__init__(identity)
        shares = Shares(limits) if shares is None else shares
        # Without a user name those of its address; they stay when the client's address changes.
        owner = owner_of(identity, host)
        self.queue_account = shares.queues.account_of(owner)
        self.pair_account = shares.pairs.account_of(owner)
        # Pairs of entity and subscription that its neighborhoods have in the filter.
        self.pairs = 0
        self.subscription_account = shares.subscriptions.account_of(owner)
        # What its subscriptions take in memory.
        self.subscription_bytes = 0
        # Its name among all sessions, and in Redis.
        self.name = identity.session_name
        # The last address of its client, as far as quotas distinguish addresses.
        self.host = host
        # An ended session gets nothing any more, though subscriptions of it may be left.
        self.has_ended = False
        self.direct: Connection | None = None
        self.direct_3: Connection | None = None
        # A traced client gets no plain copies, of which nothing is told.
        self.is_traced = False
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

    def connection_changed(self) -> None:
        """Set both after the connection, or something about it, has changed."""
        self.direct = self.direct_3 = None
        connection = self.connection
        if connection is None or self.is_traced or not connection.takes_plain_copies:
            return
        if connection.has_properties:
            self.direct = connection
        else:
            self.direct_3 = connection

    @property
    def client_id(self) -> str:
        """The client id that the client gave or was given."""
        return self.identity.client_id

    @property
    def will(self) -> Will | None:
        """The message that is published when the client is gone."""
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
        """Whom its quotas and turns count for: user name, else address, else client id."""
        if self.identity.user_name is not None:
            return f"user {self.identity.user_name}"
        return f"client {self.client_id}" if self.host is None else f"address {self.host}"

    def record(self) -> SessionSaved:
        """Return the session as the journal keeps it."""
        return SessionSaved(
            self.name,
            self.identity.user_name,
            self.expiry_interval,
            self.expires_at,
            self.will,
            self.will_at,
            self.host,
        )

    def record_waiting(self, journal: Journal, delivery: Delivery) -> None:
        """Record a message that waits for the client; QoS 0 never is."""
        if not delivery.qos or not self.is_recorded:
            return
        self.last_position += 1
        delivery.position = self.last_position
        journal.write(queued_record(self.name, delivery))

    def record_done(self, journal: Journal, delivery: Delivery) -> None:
        """Record that a message waits no longer."""
        if delivery.position and self.is_recorded:
            journal.write(MessageDone(self.name, delivery.position))


def queued_record(name: str, delivery: Delivery) -> MessageQueued:
    """Return the record of a message that waits for the session of that name."""
    keys = tuple(one.terms.key for one in delivery.subscriptions)
    return MessageQueued(
        name, delivery.position, delivery.message, delivery.qos, delivery.retain, keys
    )


def will_bytes(will: Will | None) -> int:
    """Return the bytes that keeping a will costs."""
    return 0 if will is None else will.message.size + DELIVERY_BYTES
