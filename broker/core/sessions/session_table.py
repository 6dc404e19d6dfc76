"""All sessions, connected or not: who has one, how many one owner may have, and their end.

A session belongs to a user name and a client id together. So the answer to a client never
depends on what another user holds under the same client id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from broker.codec.reason_codes import ProtocolError, ReasonCode
from broker.core.limits import BrokerLimits
from broker.core.sessions.session import Session
from broker.core.verdicts import Identity, Owner, owner_of


class SessionTable:
    """Sessions by name, counted by their owner."""

    __slots__ = ("_limits", "_of_owner", "_sessions", "connected", "most_connected", "refused")

    def __init__(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self._sessions: dict[str, Session] = {}
        self._of_owner: Counter[Owner] = Counter()
        self.connected = 0
        self.most_connected = 0
        # New sessions that were refused, by the limit that was reached.
        self.refused: Counter[str] = Counter(dict.fromkeys(("total", "user", "address"), 0))

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        """Return all sessions."""
        return iter(self._sessions.values())

    def find(self, name: str) -> Session | None:
        """Return the session of a name (``Identity.session_name``)."""
        return self._sessions.get(name)

    def of_client_id(self, client_id: str) -> list[Session]:
        """Return the sessions that users have under a client id."""
        return [one for one in self if one.client_id == client_id]

    def check_room(self, identity: Identity, host: str | None) -> None:
        """Raise ProtocolError unless the client may have one more session.

        Clients without a user name are told apart by their address, as far as it is known.
        """
        if identity.user_name is None:
            self._check_address(identity, host)
        elif (held := self._held(identity, host)) >= self._limits.sessions_of_user:
            raise self._refusal("user", f"this user name has {held} sessions, which is the limit")
        if len(self) >= self._limits.sessions:
            raise self._refusal("total", "the broker has no room for another session")

    def check_move(self, session: Session, host: str | None) -> None:
        """Raise ProtocolError unless the session may count for the address of its client.

        Else sessions made from one address and used from another would have no limit. Those of
        an unknown address may go anywhere: earlier releases noted none.
        """
        if session.identity.user_name is None and session.host not in (None, host):
            self._check_address(session.identity, host)

    def add(self, session: Session) -> None:
        """Add a new session."""
        self._sessions[session.name] = session
        self._count(session, 1)

    def remove(self, session: Session) -> None:
        """Remove a session that has ended."""
        del self._sessions[session.name]
        self._count(session, -1)

    def move(self, session: Session, host: str | None) -> None:
        """Note that the client of a session comes from another address."""
        if session.host != host:
            self._count(session, -1)
            session.host = host
            self._count(session, 1)

    def rename(self, session: Session, name: str) -> None:
        """Give a session another name."""
        del self._sessions[session.name]
        session.name = name
        self._sessions[name] = session

    def count_connected(self, change: int) -> None:
        """Note that a session got or lost its connection."""
        self.connected += change
        self.most_connected = max(self.most_connected, self.connected)

    def _check_address(self, identity: Identity, host: str | None) -> None:
        held = self._held(identity, host)
        if held >= self._limits.sessions_of_address:
            raise self._refusal("address", f"this address has {held} sessions, which is the limit")

    def _held(self, identity: Identity, host: str | None) -> int:
        owner = owner_of(identity, host)
        return 0 if owner is None else self._of_owner[owner]

    def _count(self, session: Session, change: int) -> None:
        owner = owner_of(session.identity, session.host)
        if owner is not None:
            self._of_owner[owner] += change
            if not self._of_owner[owner]:
                del self._of_owner[owner]

    def _refusal(self, cause: str, text: str) -> ProtocolError:
        self.refused[cause] += 1
        return ProtocolError(ReasonCode.QUOTA_EXCEEDED, text)
