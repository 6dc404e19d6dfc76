"""Brings the journal to its store: one step at a time, each with everything since the last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.ports import JournalStore

if TYPE_CHECKING:
    from broker.core.broker_core import Core

log = logging.getLogger(__name__)


class JournalSaver:
    """``committed`` is called whenever the core may let go of promises."""

    def __init__(self, core: Core, store: JournalStore, committed: Callable[[], None]) -> None:
        self._core = core
        self._store = store
        self._committed = committed
        self._saving: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """There are records."""
        if self._saving is None:
            self._saving = asyncio.create_task(self._save(), name="journal")

    async def drain(self) -> None:
        """Until everything that was recorded is stored."""
        while self._saving is not None:
            await self._saving

    async def _save(self) -> None:
        try:
            while self._core.journal.records:
                position, records = self._core.journal.take()
                await self._store.save(records)
                self._core.committed(position)
                self._committed()
        except Exception:
            # The store promised never to fail; without it no promise can be kept.
            log.critical("the journal cannot be stored", exc_info=True)
            raise
        finally:
            self._saving = None
