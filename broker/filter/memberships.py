"""Memberships behind one interface: which subscriptions' neighborhoods hold an entity.

A *slot* stands for a subscription: a small integer that the core gives to each neighborhood
subscription, so that four bytes are enough whatever its subId is.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, TypeAlias, cast, overload

import numpy as np
from numpy.typing import NDArray

from spatial_udfs.entity_table import Int64s

if TYPE_CHECKING:
    from broker.core.sessions.session import Session
    from broker.core.subscribe.subscription import FilterEntry, ShareGroup, Subscription


# The subscription of a slot that nobody has. Look at ``SlotOwner.home`` first, which is None then.
VACANT: Final = cast("Subscription", object())
_NO_SESSION: Final = cast("Session", None)


class SlotOwner(Sequence[int]):
    """One slot and the subscription that has it now; as a sequence it is that slot alone.

    A remembered look-up ends here, with all that decides about a message in one object: with many
    subscriptions every further object is one more access to uncached memory
    (docs/decisions/0065-recent-look-ups.md). The object stays as long as the broker lives; the
    subscription changes.
    """

    __slots__ = ("home", "session", "slot", "subscription")

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.vacate()

    def take(self, subscription: Subscription) -> None:
        """Give the slot to a subscription."""
        self.home: FilterEntry | ShareGroup | None = subscription.home
        self.session = subscription.session
        self.subscription = subscription

    def vacate(self) -> None:
        """Take the slot from its subscription: remembered look-ups lead to no one then."""
        self.home = None
        self.session = _NO_SESSION
        self.subscription = VACANT

    def __len__(self) -> int:
        """Return 1."""
        return 1

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        """Return the same as a tuple of the slot would."""
        return (self.slot,)[index]


# Ascending, without repetition.
Slots: TypeAlias = Sequence[int]


class SlotSizes:
    """The number of members of each slot.

    Slots are small and used again, so an array fits: 4 bytes a slot instead of 90.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = array("I")

    @classmethod
    def of(cls, counts: NDArray[np.uint32]) -> SlotSizes:
        """Return the sizes of these numbers by slot."""
        sizes = cls()
        sizes._counts = array("I", counts.tobytes())
        return sizes

    @property
    def highest(self) -> int:
        """The highest slot that ever had a member; -1 when none had."""
        return len(self._counts) - 1

    def add(self, slot: int, count: int) -> None:
        """Add members of a slot."""
        missing = slot + 1 - len(self._counts)
        if missing > 0:
            self._counts.frombytes(bytes(self._counts.itemsize * missing))
        self._counts[slot] += count

    def of_slot(self, slot: int) -> int:
        """Return the number of members of a slot."""
        return self._counts[slot] if slot < len(self._counts) else 0

    def take(self, slot: int) -> int:
        """Return the number of members of a slot, and set it to 0."""
        if slot >= len(self._counts):
            return 0
        count, self._counts[slot] = self._counts[slot], 0
        return count


class Memberships(Protocol):
    """The port for memberships, read on every PUBLISH with a peid. One thread makes all calls."""

    # Whether SUBSCRIBE with a neighborhood is served at all.
    serves_neighborhoods: bool
    # By slot, filled by the core; the answer for an entity in one slot is its owner.
    slot_owners: list[SlotOwner]
    # Slots that nothing refers to any more and that the core may use again.
    reusable: list[int]

    @property
    def pairs(self) -> int:
        """The pairs of entity and subscription in force that are in this process."""

    @property
    def look_up_function(self) -> Callable[[int], Slots | None]:
        """``look_up`` as a plain function over the tables in force, for the fast path.

        The memberships themselves replace it when their tables change, so it is to be taken
        again in each call into the core. It saves the call of a method: 0.07 of 1.3 µs a PUBLISH
        (bench/broker/core.py).
        """

    def look_up(self, peid: int) -> Slots | None:
        """Return the slots that hold the entity, or None when that must be requested first.

        It may name slots that were removed: the core knows which subscriptions are in force. It
        must name every slot whose ``add`` has returned and that holds the entity.
        """

    def add(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:
        """Enter a subscription with its members; look-ups see all of it from now on.

        ``coming`` are its members in the world of the generation that is being built, if one
        is; None: they are not known yet.
        """

    def begin(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:
        """Announce members that are entered in chunks, by ``add_some``."""

    def is_outdated(self, slot: int) -> bool:
        """Return whether the announced members are those of a world no longer in force."""

    def add_some(self, slot: int, most: int) -> bool:
        """Enter up to ``most`` of the announced members; return whether all are entered now."""

    def size_of(self, slot: int) -> int:
        """Return the number of pairs that a subscription in force has in this process."""

    def remove(self, slot: int) -> None:
        """Remove a subscription; the slot goes to ``reusable`` once no look-up can name it.

        Its members may have been announced only, or entered in part.
        """

    def sweep(self, budget: int) -> bool:
        """Do up to ``budget`` steps of deferred cleaning; return whether more is left."""


class NoMemberships:
    """Mode ``none``: topics alone, no neighborhood is served."""

    serves_neighborhoods = False
    pairs = 0

    def __init__(self) -> None:
        self.slot_owners: list[SlotOwner] = []
        self.reusable: list[int] = []
        self.look_up_function = self.look_up

    def look_up(self, peid: int) -> Slots:  # noqa: ARG002 - the protocol's shape
        """Return nothing: no subscription has a neighborhood."""
        return ()

    def sweep(self, budget: int) -> bool:  # noqa: ARG002 - the protocol's shape
        """Return False: nothing is ever left to clean."""
        return False

    def _unused(self, *_: object) -> NoReturn:
        """Fail: never called, because ``serves_neighborhoods`` is false."""
        raise NotImplementedError

    add = begin = add_some = is_outdated = size_of = remove = _unused
