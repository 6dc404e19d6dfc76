"""Notifies subscribers of a switch, and stores durably what they were notified of."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict

from broker.core.broker_core import Core
from broker.core.world_changes import WorldSwitch
from broker.durability.scripts import NOTE
from broker.generations.change_counts import AdoptedGeneration, LastNotified, SwitchOutcome
from broker.resolver.live_resolver import LiveResolver
from redis_link.connection.redis_connection import RedisReplyError, Word
from redis_link.connection.redis_router import RedisRouter, run_script
from schemas.generation import GenerationFacts
from schemas.mqtt_names import WorldNotice
from schemas.redis_keys import broker_told_key, journal_key

log = logging.getLogger(__name__)


class SwitchNotices:
    """Notices for the subscribers of one broker about the generation in force."""

    def __init__(
        self,
        router: RedisRouter,
        broker: str,
        owner_token: str,
        core: Core,
        resolver: LiveResolver,
        wake: Callable[[], None],
    ) -> None:
        """``owner_token`` identifies this process; ``wake`` makes the core send."""
        self._router = router
        self._journal = journal_key(broker)
        self._key = broker_told_key(broker)
        self._owner_token = owner_token
        self._core = core
        self._resolver = resolver
        self._wake = wake
        # What is not stored yet, and the journal position that must be stored before it.
        self._to_note: LastNotified | None = None
        self._position: int | None = None

    def notice_readers(self) -> Mapping[int, str]:
        """Return the subIds of clients that receive notices, with their descriptors."""
        return {
            subscription.terms.sub_id: subscription.terms.descriptor or ""
            for session in self._core.world_notifier.listeners()
            for subscription in session.subscriptions.values()
            if subscription.terms.sub_id is not None
        }

    async def last_notified(self) -> LastNotified | None:
        """Return what this process or an earlier one stored; None when there is nothing."""
        try:
            content = await self._router.ask(self._key, "GET", self._key)
        except RedisReplyError as error:
            log.warning("the generation last notified of cannot be read: %s", error)
            return None
        if content is None:
            return None
        try:
            noted = json.loads(content)
            lacking = frozenset(map(int, noted.pop("lacking")))
            return LastNotified(AdoptedGeneration(**noted), lacking)
        except (ValueError, TypeError, KeyError) as error:
            log.warning("the generation last notified of is not valid: %s", error)
            return None

    def switched(self, outcome: SwitchOutcome, facts: GenerationFacts | None) -> None:
        """Notify the subscribers whose neighborhoods changed."""
        own = self._core.neighborhoods.slots_by_sub_id
        lacking = frozenset(number for number in outcome.lacking if number in own)
        world = WorldNotice(
            version=self._resolver.version,
            generation=None if facts is None else facts.generation,
            pairs=None if facts is None else facts.pairs,
            entities=None if facts is None else facts.peids,
            neighborhoods=len(own),
            without_references=len(lacking),
        )
        self._core.world_notifier.notify(WorldSwitch(world, outcome.changes))
        if outcome.adopted is not None:
            self._to_note = LastNotified(outcome.adopted, lacking)
            self._position = None
        self._wake()

    async def store_notified(self) -> None:
        """Store it after the notices are stored: after a kill in between they are sent again."""
        if self._to_note is None or not self._core.world_notifier.is_done:
            return
        journal = self._core.journal
        if self._position is None:
            self._position = journal.position
        if journal.committed >= self._position or not journal.enabled:
            noted = self._to_note
            content = {**asdict(noted.adopted), "lacking": sorted(noted.lacking)}
            keys = [self._journal, self._key]
            words: list[Word] = [self._owner_token, json.dumps(content)]
            is_noted = await run_script(self._router, NOTE, keys, words)
            if is_noted and self._to_note is noted:
                self._to_note = None
