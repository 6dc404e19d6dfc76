"""Wrong logins by address: beyond a limit, no further password of that address is checked."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

# Addresses that are remembered; beyond it the one that was wrong longest ago is forgotten.
MOST_ADDRESSES: Final = 10_000
WINDOW_SECONDS: Final = 60.0


class WrongLogins:
    """Lets each address be wrong ``most`` times, and as often again over a minute."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        # How many wrong logins count, and when that was computed.
        self._wrong: OrderedDict[str, tuple[float, float]] = OrderedDict()
        # Logins that were refused unchecked.
        self.refused = 0

    def is_over(self, host: str) -> bool:
        """Return whether the address has been wrong too often; counts the refusal."""
        is_over = self._count(host) > self._most - 1
        self.refused += is_over
        return is_over

    def note(self, host: str) -> None:
        """Count a wrong login."""
        self._wrong[host] = (self._count(host) + 1, self._clock())
        self._wrong.move_to_end(host)
        if len(self._wrong) > MOST_ADDRESSES:
            self._wrong.popitem(last=False)

    def _count(self, host: str) -> float:
        wrong, at = self._wrong.get(host, (0.0, 0.0))
        forgiven = (self._clock() - at) * self._most / WINDOW_SECONDS
        return max(0.0, wrong - forgiven)
