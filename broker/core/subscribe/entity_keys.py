"""The keys of entities in topics, and their peids as far as they were asked for.

The same key has the same peid in every world version, so what was found stays right. A key that no
entity has may be that of a new one after a switch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import getsizeof
from typing import Final

from broker.core.requests import FindKeys, Outbox
from broker.core.subscribe.routes import Route, Routes

# A key and its entry without its text.
KEY_BYTES: Final = 200


class EntityKeys:
    """Peids by key, of at most ``limit`` bytes; beyond that all are forgotten."""

    __slots__ = ("_limit", "_outbox", "_peids", "_routes", "bytes")

    def __init__(self, outbox: Outbox, routes: Routes, limit: int) -> None:
        self._outbox = outbox
        self._routes = routes
        self._limit = limit
        # None: no entity has the key.
        self._peids: dict[str, int | None] = {}
        self.bytes = 0

    def is_settled(self, route: Route) -> bool:
        """Return whether it is known which entity a topic names, and note it in the route.

        The key stays in the route when no entity has it.
        """
        key = route.gateway_key
        if key is None:
            return True
        if key not in self._peids:
            return False
        peid = self._peids[key]
        if peid is not None:
            route.settle_key(peid)
        return True

    def ask(self, keys: tuple[str, ...], then: Callable[[str | None], None]) -> None:
        """Request the peids of keys; ``then`` is called with None, or why there is no answer."""

        def came(found: Mapping[str, int], error: str | None) -> None:
            if error is None:
                self._remember({key: found.get(key) for key in keys})
            then(error)

        self._outbox.requests.append(FindKeys(keys, came))

    def forget_unknown(self) -> None:
        """Forget the keys that no entity had, because another world version is in force."""
        unknown = [key for key, peid in self._peids.items() if peid is None]
        for key in unknown:
            del self._peids[key]
            self.bytes -= _bytes_of(key)
        if unknown:
            self._routes.clear()

    def _remember(self, peids: Mapping[str, int | None]) -> None:
        # Before all of them: the messages that asked need each one.
        if self.bytes > self._limit:
            self._peids.clear()
            self.bytes = 0
        for key in peids.keys() - self._peids.keys():
            self.bytes += _bytes_of(key)
        self._peids.update(peids)


def _bytes_of(key: str) -> int:
    return KEY_BYTES + getsizeof(key)
