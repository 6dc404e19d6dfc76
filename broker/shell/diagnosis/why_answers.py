"""Says of each subscription under a topic whether it gets a message, or why not.

It reads the tables by which messages are filtered now. The resolver process computes in which
stages the entity is and how far it is from the others, in turns with the neighborhoods of clients.
So the event loop never waits for a geometry.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from broker.core.audience import Audience, Audiences
from broker.core.subscribe.subscription import Subscription
from broker.core.verdicts import Verdict
from broker.filter.memberships import Slots
from broker.ports import MembershipReader, StoreAwayError
from broker.resolver.live_resolver import LiveResolver
from broker.resolver.resolver_requests import Asker, NeighborhoodRefusedError, ResolverLimits
from broker.shell.control_socket import Rows
from broker.shell.diagnosis.questions import WhyError, WhyQuestion
from broker.shell.diagnosis.why_verdicts import (
    FATE_TEXTS,
    NO_ENTITY,
    NO_RIGHT,
    OUTSIDE,
    UNKNOWN_ENTITY,
    fate_fields,
    outside_fields,
    row_of,
)
from spatial_udfs.exact.stage_findings import StageFinding

ASKER: Final = Asker("operator", "why")
# A neighborhood in force was granted before, so its members are not counted.
LIMITS: Final = ResolverLimits(seconds=5.0, away_seconds=1.0, members=None, waiting=None)
# Questions that wait for their turn; one is answered at a time.
MOST_WAITING: Final = 8
# Subscriptions that are looked at before others get their turn of the event loop.
LOOKED_AT_ONCE: Final = 5_000
RIGHT_SECONDS: Final = 2.0
KEY_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class _Scene:
    """A question, and what is the same for all subscriptions under the topic."""

    question: WhyQuestion
    audience: Audience
    slots: Slots
    is_known: bool | None
    # When the event loop's clock says so, no more distances are asked for.
    deadline: float


class WhyAnswers:
    """Answers one question after the other; all calls come from the event loop."""

    def __init__(
        self,
        audiences: Audiences,
        resolver: LiveResolver | None,
        reader: MembershipReader,
        wake: Callable[[], None],
    ) -> None:
        """``wake`` has the requests of the core taken."""
        self._audiences = audiences
        self._wake = wake
        self._resolver = resolver
        self._reader = reader
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def answer(self, question: WhyQuestion, seconds: float) -> list[dict[str, Any]]:
        """Return a row about the message, one for each subscription, and the number of those left.

        After ``seconds`` no more distances are computed: their rows say so. All rows are made
        before the next question, so that no reader makes others wait.
        """
        if self._waiting >= MOST_WAITING:
            raise WhyError("too many such questions wait: try again")
        self._waiting += 1
        try:
            async with self._turn:
                return [row async for row in self._rows(question, seconds)]
        finally:
            self._waiting -= 1

    async def _rows(self, question: WhyQuestion, seconds: float) -> Rows:
        await self._look_up_key(question.topic)
        audience = self._audiences.of(question.topic, question.peid)
        peid, known = audience.peid, None
        if peid is not None and self._resolver is not None:
            known = self._resolver.knows(peid)
        deadline = asyncio.get_running_loop().time() + seconds
        slots = await self._slots(audience)
        scene = _Scene(question, audience, slots, known, deadline)
        found = audience.subscriptions
        yield {
            "topic": question.topic,
            "peid": None if peid is None else str(peid),
            "key": audience.key,
            "exists": known,
            "worldVersion": 0 if self._resolver is None else self._resolver.version,
            "refused": audience.refusal,
            "subscriptions": len(found),
        }
        seen = shown = 0
        for number, subscription in enumerate(found, start=1):
            if number % LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if question.client not in (None, subscription.session.client_id):
                continue
            seen += 1
            if seen > question.offset and shown < question.limit and subscription.active:
                shown += 1
                yield row_of(subscription) | await self._verdict(subscription, scene)
        left = seen - question.offset - shown
        if left > 0:
            yield {"left": left}
        yield {"done": shown}

    async def _look_up_key(self, topic: str) -> None:
        """Have the key in a topic looked up; without an answer the audience says so."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def came(_error: str | None) -> None:
            if not answer.done():
                answer.set_result(None)

        if self._audiences.ask_key(topic, came):
            self._wake()
            with suppress(TimeoutError):
                await asyncio.wait_for(answer, KEY_SECONDS)

    async def _slots(self, audience: Audience) -> Slots:
        slots = audience.slots
        if slots is None and audience.peid is not None:
            try:
                slots = (await self._reader.look_up((audience.peid,))).get(audience.peid)
            except StoreAwayError as error:
                raise WhyError(f"memberships cannot be read: {error}") from error
        return () if slots is None else slots

    async def _verdict(self, subscription: Subscription, scene: _Scene) -> dict[str, Any]:
        if scene.audience.refusal is not None:
            return {
                "verdict": "refused",
                "text": f"every such message is refused: {scene.audience.refusal}",
            }
        if not await self._may_receive(subscription, scene.question.topic):
            text = f"the client has no right to receive {scene.question.topic}"
            return {"verdict": NO_RIGHT, "text": text}
        if subscription.terms.nsid is None:
            fate = scene.audience.fate(subscription, scene.question.qos)
            return fate_fields(subscription, fate, ())
        return await self._spatial_verdict(subscription, scene)

    async def _spatial_verdict(self, subscription: Subscription, scene: _Scene) -> dict[str, Any]:
        if scene.audience.peid is None:
            text = "the message names no entity, so it matches no neighborhood"
            return {"verdict": NO_ENTITY, "text": text}
        if scene.is_known is False:
            text = f"the world has no entity {scene.audience.peid}"
            return {"verdict": UNKNOWN_ENTITY, "text": text}
        terms = subscription.terms
        if terms.descriptor is None:
            text = f"the name {terms.name} was removed, or the client may not use it"
            return {"verdict": OUTSIDE, "text": text}
        matches = is_among(subscription.slot, scene.slots)
        fate = scene.audience.fate(subscription, scene.question.qos)
        try:
            findings = await self._findings(subscription, scene)
        except (NeighborhoodRefusedError, TimeoutError) as error:
            text = FATE_TEXTS[fate] if matches else OUTSIDE
            cause = str(error) or "not computed in the time allowed"
            verdict = fate.value if matches else OUTSIDE
            return {"verdict": verdict, "text": f"{text}; no distances: {cause}"}
        return fate_fields(subscription, fate, findings) if matches else outside_fields(findings)

    async def _findings(
        self, subscription: Subscription, scene: _Scene
    ) -> tuple[StageFinding, ...]:
        """Return what the stages have to do with the entity; TimeoutError when time is up."""
        left = scene.deadline - asyncio.get_running_loop().time()
        peid, descriptor = scene.audience.peid, subscription.terms.descriptor
        if self._resolver is None or peid is None or descriptor is None:
            return ()
        if left <= 0:
            raise TimeoutError
        limits = replace(LIMITS, seconds=min(left, LIMITS.seconds))
        async with asyncio.timeout(left):
            return await self._resolver.find_in_force(descriptor, peid, limits, ASKER)

    async def _may_receive(self, subscription: Subscription, topic: str) -> bool:
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()

        def came(verdict: Verdict) -> None:
            if not answer.done():
                answer.set_result(verdict)

        verdict = self._audiences.may_receive(subscription.session, topic, came)
        if verdict is None:
            self._wake()
            try:
                verdict = await asyncio.wait_for(answer, RIGHT_SECONDS)
            except TimeoutError:
                raise WhyError("the plugins that decide about rights do not answer") from None
        return not verdict.is_error


def is_among(slot: int, slots: Slots) -> bool:
    """Return whether a slot is one of these, which ascend; there may be a million."""
    at = bisect_left(slots, slot)
    return at < len(slots) and slots[at] == slot
