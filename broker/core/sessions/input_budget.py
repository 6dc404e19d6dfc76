"""Input that connections hold before it is worked off: bounded over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.verdicts import owner_of

if TYPE_CHECKING:
    from broker.core.sessions.connection import Connection


class InputBudget:
    """Unfinished packets, input of blocked connections, SUBSCRIBEs that wait and topic aliases.

    When all together are too much, a connection of the user or address that holds the most has
    to go: clients that hold little are never affected.
    """

    __slots__ = ("_limit", "_sizes", "bytes")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[Connection, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        """The number of connections that hold something."""
        return len(self._sizes)

    def note(self, connection: Connection, size: int) -> Connection | None:
        """Note what a connection holds now; return the connection that must be closed, if any."""
        self.bytes += size - self._sizes.pop(connection, 0)
        if size:
            self._sizes[connection] = size
        return self._heaviest() if self.bytes > self._limit else None

    def forget(self, connection: Connection) -> None:
        """Note that a connection holds nothing any more."""
        self.bytes -= self._sizes.pop(connection, 0)

    def _heaviest(self) -> Connection:
        by_owner: dict[object, int] = {}
        for connection, size in self._sizes.items():
            owner = holder_of(connection)
            by_owner[owner] = by_owner.get(owner, 0) + size
        worst = max(by_owner, key=lambda owner: by_owner[owner])
        candidates = [one for one in self._sizes if holder_of(one) == worst]
        return max(candidates, key=lambda one: self._sizes[one])


def holder_of(connection: Connection) -> object:
    """Return the user, else the address, that what a connection holds counts for."""
    if connection.session is not None:
        return owner_of(connection.session.identity, connection.host)
    return None if connection.host is None else ("address", connection.host)
