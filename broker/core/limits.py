"""Every limit of the broker with its default, and how clients share what is limited in total.

Nothing that a client sends may grow without a limit, and no user name or address can use up
what others need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from broker.core.verdicts import Owner, owner_of

if TYPE_CHECKING:
    from broker.core.sessions.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """All limits. Sizes are bytes, times are seconds."""

    # Before CONNECT is accepted the client is unknown, and may cost little.
    packet_bytes_before_connect: int = 65_536
    packet_bytes: int = 1_048_576
    # User properties in one packet; before CONNECT is accepted, those of CONNECT and its will.
    user_properties_before_connect: int = 64
    user_properties: int = 1_100
    connect_timeout: float = 10.0
    # Longer keep alives are answered by Server Keep Alive; 0 ("never") counts as longer.
    keep_alive: int = 60
    # The same for clients of MQTT 3, which cannot be answered so: silence is what ends them.
    keep_alive_mqtt3: int = 3_600
    client_id_bytes: int = 256

    # QoS 1 and 2 messages of one client that the broker has not acknowledged yet.
    receive_maximum: int = 1_000
    # The same towards a client; its own Receive Maximum applies too.
    in_flight: int = 1_000
    queued_messages: int = 10_000
    # Queued and in flight together, for one session, as they are in memory; and of all sessions
    # with their wills, of which one user name or address gets at most half.
    queued_bytes: int = 16_777_216
    total_queued_bytes: int = 536_870_912

    sessions: int = 100_000
    # Of one user name, and of one address for clients without a user name.
    sessions_of_user: int = 10_000
    sessions_of_address: int = 1_000
    session_expiry: int = 30 * 24 * 3600
    subscriptions: int = 10_000
    # What the subscriptions of one client take in memory, and those of all; one owner gets at
    # most half of it.
    subscription_bytes: int = 16_777_216
    total_subscription_bytes: int = 268_435_456
    neighborhoods: int = 1_000
    # Pairs of entity and subscription in the filter, about 15 bytes each: those of one client, and
    # those of all, of which one user name or address gets at most half.
    pairs: int = 2_000_000
    total_pairs: int = 64_000_000
    # Topic filters in one SUBSCRIBE or UNSUBSCRIBE.
    filters_per_packet: int = 1_000
    # SUBSCRIBE and UNSUBSCRIBE packets of one client that wait for an earlier one's resolution.
    waiting_subscribes: int = 100

    topic_levels: int = 200
    topic_aliases_in: int = 100
    topic_aliases_out: int = 100
    # Topics that have an alias towards one client.
    topic_alias_bytes: int = 16_384
    # Unfinished packets, input of connections that wait for an answer, SUBSCRIBEs that wait or
    # whose retained messages are not read, and topics of clients' aliases, of all connections
    # together.
    input_bytes: int = 268_435_456
    # Remembered answers of access control, of all clients together.
    verdict_bytes: int = 67_108_864
    # Of all clients; one user name gets at most half.
    retained_messages: int = 200_000
    retained_bytes: int = 268_435_456
    # Topics whose matching filters are remembered, and their bytes in memory; beyond either all
    # are forgotten.
    cached_routes: int = 65_536
    cached_route_bytes: int = 67_108_864
    # Keys of entities in topics, whose peids are remembered.
    cached_key_bytes: int = 67_108_864


class FairShare:
    """A number of bytes for all clients together, with an account for each owner.

    An owner (``owner_of``) may hold as much as is free for all others. So one owner
    gets at most half, and another finds room, however much the first ones hold.
    """

    __slots__ = ("_accounts", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        # An account is removed with the last session of its owner.
        self._accounts: WeakValueDictionary[Owner | None, Account] = WeakValueDictionary()

    def account_of(self, owner: Owner | None) -> Account:
        """Return the account of an owner; clients without a known owner have one together."""
        account = self._accounts.get(owner)
        if account is None:
            account = self._accounts[owner] = Account(self)
        return account


class Account:
    """What the sessions of one owner hold."""

    __slots__ = ("__weakref__", "_share", "used")

    def __init__(self, share: FairShare) -> None:
        self._share = share
        self.used = 0

    def has_room(self, size: int) -> bool:
        """Return whether the owner may hold so many bytes more."""
        return self.used + size <= self._share.limit - self._share.used - size

    def add(self, size: int) -> None:
        """Count bytes that are held from now on; fewer with a negative size."""
        self.used += size
        self._share.used += size


class Shares:
    """Everything whose total clients share."""

    __slots__ = ("pairs", "queues", "subscriptions")

    def __init__(self, limits: BrokerLimits) -> None:
        # Messages that wait for clients or are on their way to them, and wills.
        self.queues = FairShare(limits.total_queued_bytes)
        # Subscriptions with their filters and descriptors.
        self.subscriptions = FairShare(limits.total_subscription_bytes)
        # Pairs of entity and subscription in the filter: a number, not bytes.
        self.pairs = FairShare(limits.total_pairs)


class InputBudget:
    """The bytes of input that all connections hold: packets, SUBSCRIBEs and aliases.

    When the total is too much, a connection of the user or address that holds the most must be
    closed. Clients that hold little are never affected.
    """

    __slots__ = ("_limit", "_sizes", "bytes")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[Connection, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        """Return the number of connections that hold something."""
        return len(self._sizes)

    def note(self, connection: Connection, size: int) -> Connection | None:
        """Note what a connection holds now; return the connection that must be closed, if any."""
        self.bytes += size - self._sizes.pop(connection, 0)
        if size:
            self._sizes[connection] = size
        return self._heaviest() if self.bytes > self._limit else None

    def forget(self, connection: Connection) -> None:
        """Note that a connection holds nothing any more."""
        self.bytes -= self._sizes.pop(connection, 0)

    def _heaviest(self) -> Connection:
        by_owner: dict[object, int] = {}
        for connection, size in self._sizes.items():
            owner = holder_of(connection)
            by_owner[owner] = by_owner.get(owner, 0) + size
        worst = max(by_owner, key=lambda owner: by_owner[owner])
        candidates = [one for one in self._sizes if holder_of(one) == worst]
        return max(candidates, key=lambda one: self._sizes[one])


def holder_of(connection: Connection) -> Owner | None:
    """Return the user, else the address, that the input of a connection counts for."""
    if connection.session is not None:
        return owner_of(connection.session.identity, connection.host)
    return None if connection.host is None else ("address", connection.host)
