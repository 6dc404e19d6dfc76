"""Logs what a client was refused, at most one line a second for each connection."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from broker.codec.reason_codes import ReasonCode

if TYPE_CHECKING:
    from broker.core.sessions.connection import Connection
    from broker.core.subscribe.subscribe_jobs import FilterRequest
    from broker.core.verdicts import Identity

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 1.0


def log_refused_will(client: Identity, host: str | None, topic: str, reason: ReasonCode) -> None:
    """Log that the will of a client that is gone is not published."""
    fields = {"client": client.client_id, "user": client.user_name, "from": host, "topic": topic}
    log.info("will refused: %s", reason.name.lower(), extra=fields)


class RefusalLog:
    """The refusals of one connection. Those without a line are counted in the next line."""

    __slots__ = ("_due", "left_out")

    def __init__(self) -> None:
        self._due = 0.0
        self.left_out = 0

    def note(
        self,
        connection: Connection,
        now: float,
        what: str,
        reason: ReasonCode,
        text: str | None,
        **fields: Any,
    ) -> None:
        """Log a refusal: what was refused, the reason code by its name, and the reason string."""
        if now < self._due:
            self.left_out += 1
            return
        self._due = now + INTERVAL_SECONDS
        why = reason.name.lower() if text is None else f"{reason.name.lower()}, {text}"
        extra = connection.log_fields | fields | self.take_left_out()
        log.info("%s refused: %s", what, why, extra=extra)

    def note_filters(
        self, connection: Connection, now: float, asked: Sequence[FilterRequest], text: str | None
    ) -> None:
        """Log the first filter of a SUBSCRIBE that is refused, and how many are."""
        refused = [one for one in asked if one.code is None or one.code.is_error]
        if not refused:
            return
        first = refused[0]
        fields: dict[str, object] = {"filter": first.text, "filters_refused": len(refused)}
        what = "subscription"
        if first.neighborhood is not None:
            what = "neighborhood"
            fields |= {"nsid": first.nsid, "neighborhood": first.neighborhood}
        code = first.code or ReasonCode.UNSPECIFIED_ERROR
        self.note(connection, now, what, code, text, **fields)

    def take_left_out(self) -> dict[str, int]:
        """Return the field of the refusals that have no line of their own, if there are any."""
        count, self.left_out = self.left_out, 0
        return {"refusals_left_out": count} if count else {}
