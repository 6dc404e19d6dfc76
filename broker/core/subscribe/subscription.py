"""A subscription, the filter entry or share group under which it is entered, and its slot.

A slot is a small number that stands for a neighborhood subscription in the filter.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from broker.codec.fields import varint
from broker.filter.memberships import VACANT, Memberships, SlotOwner
from schemas.mqtt_names import NSID
from spatial_udfs.entity_table import Int64s

if TYPE_CHECKING:
    from broker.core.sessions.session import Session

_USER_PROPERTY: Final = b"\x26"
_SUBSCRIPTION_IDENTIFIER: Final = b"\x0b"
NO_SLOT: Final = -1
# Two references and the head of a key in the journal.
RECORD_BYTES: Final = 24

# A plain subscription is known by its filter, one with a neighborhood by its nsid.
SubscriptionKey: TypeAlias = str | int


def user_property(name: str, value: str) -> bytes:
    """Return a user property as bytes."""
    name_bytes, value_bytes = name.encode(), value.encode()
    return b"".join(
        (
            _USER_PROPERTY,
            len(name_bytes).to_bytes(2, "big"), name_bytes,
            len(value_bytes).to_bytes(2, "big"), value_bytes,
        )
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionTerms:
    """What the client asked for and was granted: all that must survive a restart.

    ``topic_filter`` is as the client wrote it, ``$share/…`` included. ``nsid``, ``sub_id`` and
    ``descriptor`` are set together, for a neighborhood; ``name`` too, for a named one. While its
    name is removed, or the client may not use it, ``sub_id`` and ``descriptor`` are None.
    """

    topic_filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int | None = None
    nsid: int | None = None
    sub_id: int | None = None
    descriptor: str | None = None
    name: str | None = None

    @property
    def key(self) -> SubscriptionKey:
        """The key of the subscription among those of the client."""
        return self.topic_filter if self.nsid is None else self.nsid


class FilterEntry:
    """Everything subscribed under one topic filter; exists while something is."""

    __slots__ = ("groups", "plain", "spatial", "topic_filter")

    def __init__(self, topic_filter: str) -> None:
        self.topic_filter = topic_filter
        self.plain: dict[Session, Subscription] = {}
        # By slot.
        self.spatial: dict[int, Subscription] = {}
        # By share name.
        self.groups: dict[str, ShareGroup] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is subscribed here any more."""
        return not (self.plain or self.spatial or self.groups)


class ShareGroup:
    """The members of one shared subscription: same share name, same filter."""

    __slots__ = ("entry", "plain", "served", "share_name", "spatial", "turn")

    def __init__(self, share_name: str, entry: FilterEntry) -> None:
        self.share_name = share_name
        self.entry = entry
        # The member that was served longest ago comes first.
        self.plain: OrderedDict[Session, Subscription] = OrderedDict()
        self.spatial: dict[int, Subscription] = {}
        # Counts the messages delivered, and which was the last of each member.
        self.turn = 0
        self.served: dict[Session, int] = {}

    def serve(self, session: Session) -> None:
        """Note that it was this member's turn."""
        self.turn += 1
        self.served[session] = self.turn
        if session in self.plain:
            self.plain.move_to_end(session)


class Subscription:
    """One client's subscription in force.

    ``home`` is where it is entered: what a topic's route is compared with. ``extra`` are the
    properties it adds to each PUBLISH, encoded once.
    """

    __slots__ = (
        "active", "bytes", "extra", "group", "home", "no_local", "pairs", "qos", "record_bytes",
        "session", "slot", "terms",
    )  # fmt: skip

    def __init__(self, session: Session, terms: SubscriptionTerms) -> None:
        self.session = session
        self.slot = NO_SLOT
        # Pairs in the filter that its session is charged with.
        self.pairs = 0
        self.home: FilterEntry | ShareGroup | None = None
        # The share group that it belongs to, or belonged to while it was in force.
        self.group: ShareGroup | None = None
        self.active = False
        # What it takes in memory; set when it is put in force.
        self.bytes = 0
        self.renew(terms)

    def renew(self, terms: SubscriptionTerms) -> None:
        """Replace the terms.

        A subscription that is made again stays the same object, so that messages that wait for
        it are not lost.
        """
        self.terms = terms
        self.qos = terms.qos
        self.no_local = terms.no_local
        # What its key adds to each message that waits for it, in memory and in the journal.
        self.record_bytes = RECORD_BYTES + (len(terms.topic_filter) if terms.nsid is None else 19)
        self.extra = b""
        if terms.identifier is not None:
            self.extra += _SUBSCRIPTION_IDENTIFIER + varint(terms.identifier)
        if terms.nsid is not None:
            self.extra += user_property(NSID, str(terms.nsid))

    def set_pairs(self, pairs: int) -> None:
        """Set the number of its pairs in the filter, for its session and its user too."""
        more, self.pairs = pairs - self.pairs, pairs
        self.session.pairs += more
        self.session.pair_account.add(more)


class SlotTable:
    """Subscriptions by slot, in step with the memberships.

    ``slot_owners`` are read on every PUBLISH with a peid; only their ``home`` distinguishes a
    subscription in force from a vacant slot. The list belongs to the memberships.
    """

    __slots__ = ("_memberships", "_used", "by_sub_id", "slot_owners")

    def __init__(self, memberships: Memberships) -> None:
        self._memberships = memberships
        self._used = 0
        self.slot_owners = memberships.slot_owners
        self.by_sub_id: dict[int, int] = {}

    def __len__(self) -> int:
        """Return the number of slots in use."""
        return self._used

    def in_force(self) -> Iterator[Subscription]:
        """Return the subscriptions that have a slot now, without those that leave meanwhile."""
        owners = self.slot_owners[:]
        return (one.subscription for one in owners if one.subscription is not VACANT)

    def at(self, slot: int) -> Subscription | None:
        """Return the subscription that has the slot."""
        if slot >= len(self.slot_owners) or self.slot_owners[slot].subscription is VACANT:
            return None
        return self.slot_owners[slot].subscription

    def reserve(self) -> int:
        """Return a slot that no subscription has: nothing is delivered for its members yet."""
        reusable = self._memberships.reusable
        if reusable:
            return reusable.pop()
        slot = len(self.slot_owners)
        self.slot_owners.append(SlotOwner(slot))
        return slot

    def give_up(self, slot: int) -> None:
        """Return a reserved slot with the members that were entered under it."""
        self._memberships.remove(slot)

    def enter(
        self,
        subscription: Subscription,
        peids: Int64s | None,
        reserved: int | None = None,
        coming: Int64s | None = None,
    ) -> None:
        """Give a subscription its slot and its members; None: they are loaded later.

        Its home is set by now. Under a reserved slot all members are entered already.
        """
        slot = self.reserve() if reserved is None else reserved
        self.slot_owners[slot].take(subscription)
        subscription.slot = slot
        self._used += 1
        if subscription.terms.sub_id is not None:
            self.by_sub_id[subscription.terms.sub_id] = slot
        subscription.set_pairs(0 if peids is None else len(peids))
        if peids is not None and reserved is None:
            self._memberships.add(slot, peids, coming)

    def leave(self, subscription: Subscription) -> None:
        """Vacate the slot; it is used again when the memberships say so."""
        self.vacate(subscription)
        slot = subscription.slot
        subscription.slot = NO_SLOT
        self._used -= 1
        subscription.set_pairs(0)
        self._memberships.remove(slot)

    def vacate(self, subscription: Subscription) -> None:
        """Take the slot from a subscription that is to leave: nothing is delivered for it."""
        slot = subscription.slot
        self.slot_owners[slot].vacate()
        sub_id = subscription.terms.sub_id
        # The same neighborhood, written differently, has the same subId and may be in force.
        if sub_id is not None and self.by_sub_id.get(sub_id) == slot:
            del self.by_sub_id[sub_id]

    def renumber(self, subscription: Subscription, terms: SubscriptionTerms) -> None:
        """Give a subscription in force the other subId that the registry has for it."""
        if subscription.terms.sub_id is not None:
            self.by_sub_id.pop(subscription.terms.sub_id, None)
        subscription.renew(terms)
        if terms.sub_id is not None:
            self.by_sub_id[terms.sub_id] = subscription.slot
