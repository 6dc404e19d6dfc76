"""Memberships behind one interface: which subscriptions' neighborhoods hold an entity.

Subscriptions are named by *slots*: small integers that the core gives to the neighborhood
subscriptions it holds, so that four bytes name one whatever its subId is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast, overload

from spatial_udfs.entity_table import Int64s

if TYPE_CHECKING:
    from broker.core.sessions.session import Session
    from broker.core.subscribe.subscription import FilterNode, ShareGroup, Subscription


# Nobody. Only ``home`` is asked of a seat before it is known that somebody has it.
VACANT: Final = cast("Subscription", object())
_NO_SESSION: Final = cast("Session", None)


class SlotOwner(Sequence[int]):
    """One slot, and who has it now: read as a sequence, it is that slot alone.

    A remembered look-up ends here, and what decides about a message stands in this one place:
    with many subscriptions every further object would be one more wait for memory
    (docs/decisions/0065-recent-look-ups.md). A seat stays as long as the broker lives; who sits
    on it changes.
    """

    __slots__ = ("home", "session", "slot", "subscription")

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.vacate()

    def take(self, subscription: Subscription) -> None:
        """Let a subscription have the slot."""
        self.home: FilterNode | ShareGroup | None = subscription.home
        self.session = subscription.session
        self.subscription = subscription

    def vacate(self) -> None:
        """Let nobody have it: what is remembered of it leads nowhere."""
        self.home = None
        self.session = _NO_SESSION
        self.subscription = VACANT

    def __len__(self) -> int:
        """One, always."""
        return 1

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        """As a tuple of the slot would."""
        return (self.slot,)[index]


# Ascending, without repetition.
Slots: TypeAlias = Sequence[int]


class Memberships(Protocol):
    """What the router asks on every PUBLISH with a peid. All calls come from one thread."""

    # Whether SUBSCRIBE with a neighborhood is served at all.
    serves_neighborhoods: bool
    # By slot, filled by the core; an answer of one slot is its seat.
    slot_owners: list[SlotOwner]
    # Slots that nothing refers to any more and that the core may give out again.
    reusable: list[int]

    def look_up(self, peid: int) -> Slots | None:
        """The slots that hold the entity, or None when that must be asked for first.

        It may name slots that were removed: the core knows which subscriptions live. It must
        name every slot whose ``add`` has returned and that holds the entity.
        """

    def add(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:
        """Enter a subscription with its members; look-ups see all of it from now on.

        ``coming`` are its members in the world of the generation that is being built, if one
        is; None: they are not known yet.
        """

    def begin(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:
        """Announce members that come piece by piece, by ``add_some``."""

    def is_outdated(self, slot: int) -> bool:
        """Whether what was announced are members in a world that is no longer in force."""

    def add_some(self, slot: int, most: int) -> bool:
        """Enter up to ``most`` of what was announced; whether that is all of it now."""

    def size_of(self, slot: int) -> int:
        """Return the number of pairs that a subscription in force has in this process."""

    def remove(self, slot: int) -> None:
        """Take a subscription out; the slot goes to ``reusable`` once no look-up can name it.

        It may have been announced only, or entered in part.
        """

    def sweep(self, budget: int) -> bool:
        """Do up to ``budget`` steps of deferred cleaning; whether more is left."""


class NoMemberships:
    """The baseline: topics alone, no neighborhood is served."""

    serves_neighborhoods = False

    def __init__(self) -> None:
        self.slot_owners: list[SlotOwner] = []
        self.reusable: list[int] = []

    def look_up(self, peid: int) -> Slots:  # noqa: ARG002 - the protocol's shape
        """Nothing: no subscription has a neighborhood."""
        return ()

    def add(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:
        """Never called, because ``serves_neighborhoods`` is false."""
        raise NotImplementedError

    def begin(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:
        """Never called either."""
        raise NotImplementedError

    def is_outdated(self, slot: int) -> bool:
        """Never called either."""
        raise NotImplementedError

    def add_some(self, slot: int, most: int) -> bool:
        """Never called either."""
        raise NotImplementedError

    def size_of(self, slot: int) -> int:
        """Never called either."""
        raise NotImplementedError

    def remove(self, slot: int) -> None:
        """Never called either."""
        raise NotImplementedError

    def sweep(self, budget: int) -> bool:  # noqa: ARG002 - the protocol's shape
        """Nothing is ever left to clean."""
        return False
