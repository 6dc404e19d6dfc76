"""Reads from Redis what names of neighborhoods stand for, and puts back what Redis has lost."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Final

from broker.durability.registrations import unknown_name
from broker.ports import StoreAwayError
from redis_link.connection.redis_connection import RedisConnection, Word
from redis_link.connection.redis_router import RedisRouter, run_script
from redis_link.registry.named_neighborhoods import EDITION_FIELD, PUT_BACK_NAMES
from schemas.errors import RedisLinkError
from schemas.named_neighborhood import NamedNeighborhood
from schemas.redis_keys import NAMES_CHANNEL, names_key

# A descriptor has up to 64 KiB.
READ_AT_ONCE: Final = 50


class RedisDefinitions:
    """A ``NamedDefinitions`` (broker/ports.py); RedisLinkError when Redis does not answer."""

    def __init__(self, router: RedisRouter) -> None:
        self._router = router

    async def find(self, name: str) -> NamedNeighborhood:
        """Return what the name stands for now."""
        try:
            found = (await self.of_names([name])).get(name)
        except RedisLinkError as error:
            raise StoreAwayError(f"named neighborhoods cannot be read: {error}") from error
        if found is None:
            raise unknown_name(name)
        return found

    async def of_names(self, names: Iterable[str]) -> dict[str, NamedNeighborhood]:
        """Return what the names stand for, without those that no neighborhood has."""
        found: dict[str, NamedNeighborhood] = {}
        wanted, key = list(names), names_key()
        for start in range(0, len(wanted), READ_AT_ONCE):
            some = wanted[start : start + READ_AT_ONCE]
            texts = await self._router.ask(key, "HMGET", key, *some)
            for name, text in zip(some, texts, strict=True):
                if text is not None:
                    found[name] = NamedNeighborhood.from_json(name, text)
        return found

    async def edition(self) -> str:
        """Return which definitions are in force; empty when Redis has none, and never had."""
        key = names_key()
        edition: bytes | None = await self._router.ask(key, "HGET", key, EDITION_FIELD)
        return "" if edition is None else edition.decode()

    async def put_back(self, definitions: Iterable[NamedNeighborhood]) -> int:
        """Write definitions that Redis has lost, and leave those that it has; return how many."""
        words: list[Word] = [NAMES_CHANNEL, uuid.uuid4().hex]
        for one in definitions:
            words += [one.name, one.to_json()]
        return int(await run_script(self._router, PUT_BACK_NAMES, [names_key()], words))

    async def listen(self, on_notice: Callable[[], None]) -> RedisConnection:
        """Open a connection that calls ``on_notice`` after each change."""
        return await self._router.listen(NAMES_CHANNEL, on_notice)
