"""Sessions by client id: who has one, who may have it, and when it ends."""

from __future__ import annotations

from collections.abc import Iterator

from broker.access import Identity
from broker.codec.errors import ProtocolError
from broker.codec.reason_codes import ReasonCode
from broker.limits import BrokerLimits
from broker.session import Session


class SessionRegistry:
    """All sessions, connected or not."""

    __slots__ = ("_limits", "_sessions", "connected", "most_connected")

    def __init__(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self._sessions: dict[str, Session] = {}
        self.connected = 0
        self.most_connected = 0

    def __len__(self) -> int:
        """The number of sessions."""
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        """All sessions."""
        return iter(self._sessions.values())

    def find(self, client_id: str) -> Session | None:
        """The session of a client id."""
        return self._sessions.get(client_id)

    def check_owner(self, identity: Identity) -> Session | None:
        """The session that the client may take over; ProtocolError when it is another user's.

        Whoever does not own a session can neither resume nor wipe it.
        """
        session = self._sessions.get(identity.client_id)
        if session is not None and session.identity.user_name != identity.user_name:
            raise ProtocolError(
                ReasonCode.NOT_AUTHORIZED, "this client identifier belongs to another user"
            )
        if session is None and len(self._sessions) >= self._limits.sessions:
            raise ProtocolError(
                ReasonCode.QUOTA_EXCEEDED, f"there are {len(self._sessions)} sessions already"
            )
        return session

    def add(self, session: Session) -> None:
        """A new session."""
        self._sessions[session.client_id] = session

    def remove(self, session: Session) -> None:
        """The session has ended."""
        del self._sessions[session.client_id]

    def count_connected(self, change: int) -> None:
        """A session got or lost its connection."""
        self.connected += change
        self.most_connected = max(self.most_connected, self.connected)
