"""A session as an operator sees it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from broker.core.sessions.session import NEVER_EXPIRES, Session


def session_row(session: Session) -> dict[str, Any]:
    """Return what ``spaps sessions list`` shows of one session; times are in UTC."""
    connection = session.connection
    if connection is not None:
        since, address = connection.connected_at, connection.address
    else:
        # The expiry begins when the client leaves.
        left = session.expires_at
        since = None if left is None else left - session.expiry_interval
        address = session.host
    ends = session.expires_at if session.expiry_interval != NEVER_EXPIRES else None
    return {
        "client": session.client_id,
        "user": session.identity.user_name,
        "address": address,
        "state": "away" if connection is None else "connected",
        "since": _time(since),
        "expires": _time(ends),
        "expirySeconds": session.expiry_interval,
        "subscriptions": len(session.subscriptions),
        "queued": len(session.outgoing.queue) + len(session.outgoing.identified),
        "queuedBytes": session.outgoing.bytes,
    }


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
