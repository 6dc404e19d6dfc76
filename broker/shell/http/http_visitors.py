"""Visitors of the HTTP pages: how many at once, and who goes when there are too many.

A new visitor is never refused: the one that has been slow for longest makes room. So slow
visitors, however many, cannot keep anybody from a page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

# Ends the visitor's connection.
Close: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Visitors in all and of one address, and how long one may take."""

    visitors: int = 64
    visitors_of_address: int = 16
    seconds: float = 5.0


class Visitors:
    """Those who are being served, by address, the oldest first."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._of_host: dict[str, dict[int, Close]] = {}
        self._number = 0
        self._count = 0
        # How many had to make room, by the limit that was reached.
        self.displaced: Counter[str] = Counter({"address": 0, "total": 0})

    def enter(self, host: str, close: Close) -> int:
        """Let a visitor in and return its number; closes another one if there are too many."""
        own = self._of_host.get(host, {})
        if len(own) >= self._limits.visitors_of_address:
            self._displace(host, "address")
        elif self._count >= self._limits.visitors:
            self._displace(max(self._of_host, key=lambda one: len(self._of_host[one])), "total")
        self._number += 1
        self._count += 1
        self._of_host.setdefault(host, {})[self._number] = close
        return self._number

    def leave(self, host: str, number: int) -> None:
        """Note that a visitor has gone, if it was not sent away before."""
        own = self._of_host.get(host, {})
        if own.pop(number, None) is not None:
            self._count -= 1
            if not own:
                del self._of_host[host]

    def close_all(self) -> None:
        """Close all connections."""
        for own in self._of_host.values():
            for close in own.values():
                close()

    def _displace(self, host: str, cause: str) -> None:
        number, close = next(iter(self._of_host[host].items()))
        self.leave(host, number)
        self.displaced[cause] += 1
        close()
