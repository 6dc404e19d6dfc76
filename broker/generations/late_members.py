"""Members of subscriptions that a generation does not hold: resolved live when it is adopted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from enum import Enum
from typing import Any, Protocol

from broker.codec.reason_codes import ReasonCode
from broker.core.subscribe.subscription import SubscriptionTerms
from broker.resolver.live_resolver import ComingMembers
from broker.resolver.resolver_answers import NeighborhoodRefusedError

log = logging.getLogger(__name__)


class Unresolved(Enum):
    """Why the members are not known."""

    UNANSWERED = "unanswered"  # the resolver was away
    FAILED = "failed"  # it met an error that may not come again
    REFUSED = "refused"  # the neighborhood costs too much, or is not understood


class ComingWorld(Protocol):
    """The live resolver."""

    async def resolve_coming(self, descriptor: str) -> ComingMembers:
        """Members in the world that comes, or in the one in force when it stays."""


class LateMembers:
    """``patience``: so long a start waits without any answer before it goes on without."""

    def __init__(self, resolver: ComingWorld, patience: float) -> None:
        self._resolver = resolver
        self._patience = patience
        self._last_answer: float | None = None

    async def resolve(
        self, terms: SubscriptionTerms, *, is_start: bool
    ) -> ComingMembers | Unresolved:
        """Return the members, or why they are not known; never waits for ever."""
        if self._last_answer is None:
            self._last_answer = time.monotonic()
        work = self._resolver.resolve_coming(terms.descriptor or "")
        try:
            members = await (self._within_patience(work) if is_start else work)
        except TimeoutError:
            return Unresolved.UNANSWERED
        except NeighborhoodRefusedError as error:
            log.warning("subscription %s has no members yet: %s", terms.sub_id, error)
            if error.is_passing:
                return Unresolved.UNANSWERED
            is_failure = error.reason is ReasonCode.UNSPECIFIED_ERROR
            return Unresolved.FAILED if is_failure else Unresolved.REFUSED
        self._last_answer = time.monotonic()
        if members.lacks_references:
            # It stays: when its references come back, so do its members.
            log.warning("subscription %s holds nothing now: no reference exists", terms.sub_id)
        return members

    async def _within_patience(self, work: Coroutine[Any, Any, ComingMembers]) -> ComingMembers:
        """Wait as long as answers come, to this or to others; TimeoutError when none does."""
        task = asyncio.create_task(work)
        try:
            while True:
                left = (self._last_answer or 0.0) + self._patience - time.monotonic()
                done, _ = await asyncio.wait({task}, timeout=max(0.0, left))
                if done:
                    return task.result()
                if left <= 0:
                    raise TimeoutError
        finally:
            task.cancel()
