"""Limits the log lines that clients cause, so that none of them can fill a disk with lines.

A line counts for the client's address when it has the field ``from``. The broker's own lines have
none and are never left out.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

from broker.access.addresses import quota_host

# Addresses whose lines are counted; beyond this number the one that was quiet longest is removed.
MOST_ADDRESSES: Final = 10_000
MINUTE: Final = 60.0


class _Allowance:
    """So many lines a minute, all of them at once after a minute without any."""

    __slots__ = ("_at", "_left", "_most", "left_out")

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = float(most)
        self._at = 0.0
        self.left_out = 0

    def has_room(self, now: float) -> bool:
        """Return whether a line may be written now."""
        gained = max(0.0, now - self._at) * self._most / MINUTE
        self._at = max(now, self._at)
        self._left = min(float(self._most), self._left + gained)
        return self._left >= 1.0

    def take(self) -> bool:
        """Count a line; return whether it is the last one for now."""
        self._left -= 1.0
        return self._left < 1.0


class ClientLines(logging.Filter):
    """A filter of the log's handler; ``most`` lines a minute in all, and of one address.

    The last line before some are left out says so (``log_limit``), and the first line after them
    says how many they were (``lines_left_out``).
    """

    def __init__(self, most: int, most_of_address: int) -> None:
        super().__init__()
        self._all = _Allowance(most)
        self._most_of_address = most_of_address
        self._of_host: OrderedDict[str, _Allowance] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        origin = getattr(record, "from", None)
        if not isinstance(origin, str):
            return True
        own = self._allowance_of(_host_of(origin))
        # Both are asked, so that both go on with the time.
        has_room = [one.has_room(record.created) for one in (own, self._all)]
        if not all(has_room):
            (self._all if has_room[0] else own).left_out += 1
            return False
        reached = {True: "address", False: ""}[own.take()]
        reached = "all clients" if self._all.take() else reached
        if reached:
            record.log_limit = reached
        if left_out := own.left_out + self._all.left_out:
            record.lines_left_out = left_out
            own.left_out = self._all.left_out = 0
        return True

    def _allowance_of(self, host: str) -> _Allowance:
        allowance = self._of_host.get(host)
        if allowance is None:
            allowance = self._of_host[host] = _Allowance(self._most_of_address)
            if len(self._of_host) > MOST_ADDRESSES:
                self._of_host.popitem(last=False)
        self._of_host.move_to_end(host)
        return allowance


def _host_of(origin: str) -> str:
    """Return the key of quotas of ``HOST:PORT``, or of a host alone."""
    if origin.startswith("["):
        host = origin[1:].partition("]")[0]
    elif origin.count(":") == 1:
        host = origin.partition(":")[0]
    else:
        host = origin
    return quota_host(host)
