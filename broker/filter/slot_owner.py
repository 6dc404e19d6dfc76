"""Seats: what a look-up leads to when an entity lies in one neighborhood only, as most do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast, overload

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
