"""Verdicts for sessions: remembered, asked for once, and thrown away when rules change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Final, Protocol

from broker.codec.reason_codes import ReasonCode
from broker.core.requests import Judge, Outbox, PendingRequests
from broker.core.sessions.session import Session
from broker.core.verdicts import AccessControl, Action, AllowAll, Identity, Verdict

# For one session; a client that touches more topics starts to be asked about afresh.
MOST_VERDICTS: Final = 10_000
MOST_AUTHORS: Final = 1_000
# A verdict and its places in tables, without its topic.
VERDICT_BYTES: Final = 300


class Judged(Protocol):
    """Somebody with a memory of verdicts: a session, or the author of what is retained."""

    @property
    def identity(self) -> Identity:
        """Who it is."""

    verdicts: dict[tuple[Action, str], Verdict]
    waiting_verdicts: dict[tuple[Action, str], list[Callable[[Verdict], None]]]


@dataclass(slots=True, eq=False)
class Author:
    """A client whose retained messages are given out; its session may be long gone."""

    identity: Identity
    verdicts: dict[tuple[Action, str], Verdict] = field(default_factory=dict)
    waiting_verdicts: dict[tuple[Action, str], list[Callable[[Verdict], None]]] = field(
        default_factory=dict
    )


class VerdictCache:
    """Between the core and whoever decides."""

    __slots__ = (
        "_authors", "_control", "_limit", "_outbox", "_pending_requests", "_sizes", "bytes",
        "is_restricted",
    )  # fmt: skip

    def __init__(
        self, control: AccessControl, outbox: Outbox, pending_requests: PendingRequests, limit: int
    ) -> None:
        """Remember verdicts of at most ``limit`` bytes; then the memory starts afresh."""
        self._control = control
        self._limit = limit
        # What the verdicts of each take in memory, and those of all.
        self._sizes: dict[Judged, int] = {}
        self.bytes = 0
        self._outbox = outbox
        self._pending_requests = pending_requests
        self._authors: dict[Identity, Author] = {}
        # Without any rules the hot path need not look.
        self.is_restricted = not isinstance(control, AllowAll)

    def ask(
        self, session: Judged, topic: str, action: Action, then: Callable[[Verdict], None]
    ) -> Verdict | None:
        """The verdict; None: it is asked for, and ``then`` is called with it."""
        question = (action, topic)
        verdict = session.verdicts.get(question)
        if verdict is not None:
            return verdict
        waiting = session.waiting_verdicts.get(question)
        if waiting is not None:
            waiting.append(then)
            return None
        verdict = self._control.verdict(session.identity, topic, action)
        if verdict is not None:
            self._remember(session, question, verdict)
            return verdict
        session.waiting_verdicts[question] = [then]
        self._request(
            session.identity, topic, action, lambda answer: self._came(session, question, answer)
        )
        return None

    def ask_author(
        self, author: Identity, topic: str, then: Callable[[Verdict], None]
    ) -> Verdict | None:
        """Whether who had a message retained may still publish it; None as in ``ask``."""
        if not self.is_restricted:
            return ReasonCode.SUCCESS
        known = self._authors.get(author)
        if known is None:
            if len(self._authors) >= MOST_AUTHORS:
                self.forget_authors()
            known = self._authors[author] = Author(author)
        return self.ask(known, topic, Action.PUBLISH, then)

    def ask_once(
        self, identity: Identity, topic: str, action: Action, then: Callable[[Verdict], None]
    ) -> Verdict | None:
        """The same for a client without a session, without a memory."""
        verdict = self._control.verdict(identity, topic, action)
        if verdict is None:
            self._request(identity, topic, action, then)
        return verdict

    def forget(self, session: Judged) -> None:
        """Throw the session's verdicts away; those under way still count."""
        session.verdicts.clear()
        self.bytes -= self._sizes.pop(session, 0)
        if isinstance(session, Session) and session.connection is not None:
            session.connection.may_publish.clear()

    def forget_authors(self) -> None:
        """The same for everybody whose messages are retained."""
        for author in self._authors.values():
            self.forget(author)
        self._authors.clear()

    def _request(
        self, identity: Identity, topic: str, action: Action, then: Callable[[Verdict], None]
    ) -> None:
        self._outbox.requests.append(
            Judge(self._pending_requests.open(then), identity, topic, action)
        )

    def _came(self, session: Judged, question: tuple[Action, str], verdict: Verdict) -> None:
        waiting = session.waiting_verdicts.pop(question)
        self._remember(session, question, verdict)
        for then in waiting:
            then(verdict)

    def _remember(self, session: Judged, question: tuple[Action, str], verdict: Verdict) -> None:
        if len(session.verdicts) >= MOST_VERDICTS:
            self.forget(session)
        # The topic is there as text, and as bytes where a connection may publish to it.
        size = VERDICT_BYTES + 2 * getsizeof(question[1])
        if self.bytes + size > self._limit:
            for other in list(self._sizes):
                self.forget(other)
        session.verdicts[question] = verdict
        self._sizes[session] = self._sizes.get(session, 0) + size
        self.bytes += size
