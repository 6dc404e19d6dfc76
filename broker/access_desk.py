"""Verdicts for sessions: remembered, asked for once, and thrown away when rules change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.access import AccessControl, Action, AllowAll, Identity, Verdict
from broker.effects import Judge, Outbox
from broker.session import Session
from broker.tickets import Tickets

# For one session; a client that touches more topics starts to be asked about afresh.
MOST_VERDICTS: Final = 10_000


class AccessDesk:
    """Between the core and whoever decides."""

    __slots__ = ("_control", "_outbox", "_tickets", "is_restricted")

    def __init__(self, control: AccessControl, outbox: Outbox, tickets: Tickets) -> None:
        self._control = control
        self._outbox = outbox
        self._tickets = tickets
        # Without any rules the hot path need not look.
        self.is_restricted = not isinstance(control, AllowAll)

    def ask(
        self, session: Session, topic: str, action: Action, then: Callable[[Verdict], None]
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

    def ask_once(
        self, identity: Identity, topic: str, action: Action, then: Callable[[Verdict], None]
    ) -> Verdict | None:
        """The same for a client without a session, without a memory."""
        verdict = self._control.verdict(identity, topic, action)
        if verdict is None:
            self._request(identity, topic, action, then)
        return verdict

    def forget(self, session: Session) -> None:
        """Throw the session's verdicts away; those under way still count."""
        session.verdicts.clear()

    def _request(
        self, identity: Identity, topic: str, action: Action, then: Callable[[Verdict], None]
    ) -> None:
        self._outbox.requests.append(Judge(self._tickets.open(then), identity, topic, action))

    def _came(self, session: Session, question: tuple[Action, str], verdict: Verdict) -> None:
        waiting = session.waiting_verdicts.pop(question)
        self._remember(session, question, verdict)
        for then in waiting:
            then(verdict)

    def _remember(self, session: Session, question: tuple[Action, str], verdict: Verdict) -> None:
        if len(session.verdicts) >= MOST_VERDICTS:
            session.verdicts.clear()
        session.verdicts[question] = verdict
