"""Subscriptions to named neighborhoods: their filters, and changes of what their names stand for.

A client without user properties subscribes to ``$neighborhood/NAME/filter``. A shared subscription
is written ``$share/group/$neighborhood/NAME/filter``. Messages are matched with ``filter`` alone,
and access control judges that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from broker.codec.fields import SHARE_PREFIX, FilterError, ParsedFilter, parse_filter
from broker.codec.reason_codes import ReasonCode
from broker.core.journal import SubscriptionSaved
from broker.core.subscribe.subscription import Subscription
from schemas.named_neighborhood import NAME_FORM, NAME_PREFIX, is_name
from spatial_udfs.entity_table import Int64s

if TYPE_CHECKING:
    from broker.core.core_state import CoreState

# Levels in front of the filter that messages are matched with.
_NAME_LEVELS: Final = 2


def names_neighborhood(text: str) -> bool:
    """Return whether a filter, as the client wrote it, names a neighborhood."""
    if text.startswith(SHARE_PREFIX):
        text = text[len(SHARE_PREFIX) :].partition("/")[2]
    return text.startswith(NAME_PREFIX)


def parse_subscription(text: str, max_levels: int) -> tuple[ParsedFilter, str | None]:
    """Return the filter to match messages with, and the name of its neighborhood, if any."""
    if not names_neighborhood(text):
        return parse_filter(text, max_levels), None
    parsed = parse_filter(text, max_levels + _NAME_LEVELS)
    name, _, inner = parsed.topic_filter[len(NAME_PREFIX) :].partition("/")
    if not is_name(name) or not inner:
        raise FilterError(
            f"a named neighborhood is subscribed to as {NAME_PREFIX}NAME/filter; NAME: {NAME_FORM}"
        )
    if inner.startswith((SHARE_PREFIX, NAME_PREFIX)):
        raise FilterError(
            f"a shared subscription to a named neighborhood is written "
            f"{SHARE_PREFIX}group/{NAME_PREFIX}NAME/filter"
        )
    return ParsedFilter(inner, parsed.share_name), name


def matched_filter(text: str) -> str:
    """Return the filter that messages are matched with, of a valid one as the client wrote it."""
    return parse_subscription(text, text.count("/") + 1)[0].topic_filter


class NamedSubscriptions:
    """Finds them, and gives them other members in one step."""

    __slots__ = ("_state",)

    def __init__(self, state: CoreState) -> None:
        self._state = state

    def __iter__(self) -> Iterator[Subscription]:
        """Return all that are in force now."""
        return (one for one in self._state.slots.in_force() if one.terms.name is not None)

    def take_arrivals(self) -> list[Subscription]:
        """Return those that came into force, or were restored, since the last call."""
        arrived = list(self._state.named_arrivals)
        self._state.named_arrivals.clear()
        return arrived

    def is_in_force(self, subscription: Subscription) -> bool:
        """Return whether it is in force; False once it was replaced by another one."""
        return subscription.active and not subscription.session.has_ended

    def may_be_used(self, subscription: Subscription) -> bool:
        """Return whether its client may use its name."""
        name = subscription.terms.name or ""
        verdict = self._state.access.may_use(subscription.session.identity, name)
        return verdict is ReasonCode.SUCCESS

    def announce(self, peids: Int64s) -> int:
        """Return a slot that members are entered under, before a subscription gets it."""
        slot = self._state.slots.reserve()
        self._state.memberships.begin(slot, peids)
        return slot

    def enter_some(self, slot: int, most: int) -> None:
        """Enter the next of the announced members."""
        self._state.memberships.add_some(slot, most)

    def give_up(self, slot: int) -> None:
        """Give up an announced slot with the members that were entered under it."""
        self._state.slots.give_up(slot)

    def forget(self, sub_id: int) -> None:
        """Have a registration removed that no subscription came into force with."""
        self._state.forget(sub_id)

    def change(
        self,
        subscription: Subscription,
        definition: tuple[int, str] | None,
        slot: int | None,
        peids: Int64s,
        *,
        keeps_messages: bool,
    ) -> None:
        """Give a subscription other members in one step; those under a slot are entered already.

        ``definition`` is its new subId with the descriptor; None: it has none for now.
        ``keeps_messages``: what waits for it is still sent.
        """
        before, session = subscription.terms, subscription.session
        sub_id, descriptor = (None, None) if definition is None else definition
        terms = replace(before, sub_id=sub_id, descriptor=descriptor)
        parsed, _ = parse_subscription(terms.topic_filter, terms.topic_filter.count("/") + 1)
        self._state.index.leave(subscription)
        if before.sub_id is not None and before.sub_id != sub_id:
            self._state.forget(before.sub_id)
        if keeps_messages:
            subscription.renew(terms)
        else:
            subscription = Subscription(session, terms)
        # None are none in a world that is being loaded, too.
        coming = peids if definition is None else None
        self._state.index.enter(subscription, parsed, peids, slot, coming)
        session.subscriptions[terms.key] = subscription
        if session.is_recorded:
            self._state.journal.write(SubscriptionSaved(session.name, terms))
