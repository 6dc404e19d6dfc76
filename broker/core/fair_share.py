"""Memory that many clients share: no user name or address can use up what others need."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakValueDictionary

from broker.core.limits import BrokerLimits
from broker.core.verdicts import Owner


class FairShare:
    """A number of bytes for all clients together, with an account for each owner.

    An owner (``broker.access.owner_of``) may hold as much as is free for all others. So one owner
    gets at most half, and another finds room, however much the first ones hold.
    """

    __slots__ = ("_accounts", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        # An account goes with the last session of its owner.
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


@dataclass(frozen=True, slots=True)
class Shares:
    """All that is shared among clients."""

    # Messages that wait for clients or are under way to them, and wills.
    queues: FairShare
    # Subscriptions with their filters and descriptors.
    subscriptions: FairShare
    # Pairs of entity and subscription in the filter: a number, not bytes.
    pairs: FairShare


def make_shares(limits: BrokerLimits) -> Shares:
    """Return the shares of a broker in which nothing is held yet."""
    return Shares(
        FairShare(limits.total_queued_bytes),
        FairShare(limits.total_subscription_bytes),
        FairShare(limits.total_pairs),
    )
