"""Access control as the core sees it: who asks, who decides, and the verdicts that are remembered.

The core does not know who decides. A decision may come at once or later. Until then the core
holds back what depends on it, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from sys import getsizeof
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from broker.codec.reason_codes import ReasonCode
from broker.core.requests import Judge, Outbox

if TYPE_CHECKING:
    from broker.core.sessions.connection import Connection

# SUCCESS allows; an error code refuses, and the client gets that code.
Verdict: TypeAlias = ReasonCode
# For one client; a client that uses more topics is asked about again.
MOST_VERDICTS: Final = 10_000
MOST_AUTHORS: Final = 1_000
# A verdict and its entries in tables, without its topic.
VERDICT_BYTES: Final = 300


# Characters of a topic in a reason string.
_SHOWN_TOPIC: Final = 100


def denial_text(verdict: Verdict, action: str, topic: str) -> str:
    """Return the reason string of a refused right; 0x80 does not reveal that there are rules."""
    shown = topic if len(topic) <= _SHOWN_TOPIC else f"{topic[:_SHOWN_TOPIC]}…"
    if verdict is ReasonCode.NOT_AUTHORIZED:
        return f"no right to {action} {shown}"
    return f"this client cannot {action} {shown}"


class Action(Enum):
    """What a client wants to do with a topic."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"  # the topic is a filter, of a shared subscription the inner one
    RECEIVE = "receive"
    USE_NEIGHBORHOOD = "neighborhood"  # the topic is the name of a neighborhood


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks. ``user_name`` is what authentication established, None for anonymous."""

    client_id: str
    user_name: str | None

    @property
    def session_name(self) -> str:
        """The name of the client's session, in memory and in Redis.

        Each user has client ids of its own. MQTT allows no U+0000 in either text, so no two
        identities have the same name.
        """
        return self.client_id if self.user_name is None else f"{self.user_name}\0{self.client_id}"


# A user name or an address, and which of both it is.
Owner: TypeAlias = tuple[str, str]


def owner_of(identity: Identity, host: str | None) -> Owner | None:
    """Return whom quotas count a client for: user, else address; None when neither is known."""
    if identity.user_name is not None:
        return "user", identity.user_name
    return None if host is None else ("address", host)


class AccessControl(Protocol):
    """The port for topic rules."""

    def verdict(self, client: Identity, topic: str, action: Action) -> Verdict | None:
        """Return the decision, or None: then a ``Judge`` request asks for it and the core waits.

        About names of neighborhoods it is never None.
        """


class AllowAll:
    """Access control without rules."""

    def verdict(self, client: Identity, topic: str, action: Action) -> Verdict:  # noqa: ARG002 - the protocol's shape
        """Allow everything."""
        return ReasonCode.SUCCESS


Question: TypeAlias = tuple[Action, str]


class AccessSubject:
    """A client with its verdicts: a session, or the author of retained messages.

    The session of an author may be long gone, so it has verdicts of its own.
    """

    __slots__ = ("connection", "identity", "verdicts", "waiting_verdicts")

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.connection: Connection | None = None
        self.verdicts: dict[Question, Verdict] = {}
        self.waiting_verdicts: dict[Question, list[Callable[[Verdict], None]]] = {}


class VerdictCache:
    """Asks the access control once for each question, and remembers the verdict."""

    __slots__ = (
        "_authors", "_control", "_limit", "_outbox", "_sizes", "bytes", "is_restricted",
    )  # fmt: skip

    def __init__(self, control: AccessControl, outbox: Outbox, limit: int) -> None:
        """Remember verdicts of at most ``limit`` bytes; beyond that all are forgotten."""
        self._control = control
        self._limit = limit
        # What the verdicts of each client take in memory, and those of all.
        self._sizes: dict[AccessSubject, int] = {}
        self.bytes = 0
        self._outbox = outbox
        self._authors: dict[Identity, AccessSubject] = {}
        # Without rules the fast path need not look.
        self.is_restricted = not isinstance(control, AllowAll)

    def ask(
        self, client: AccessSubject, topic: str, action: Action, then: Callable[[Verdict], None]
    ) -> Verdict | None:
        """Return the verdict; None: it is requested, and ``then`` is called with it."""
        question = (action, topic)
        verdict = client.verdicts.get(question)
        if verdict is not None:
            return verdict
        waiting = client.waiting_verdicts.get(question)
        if waiting is not None:
            waiting.append(then)
            return None
        verdict = self._control.verdict(client.identity, topic, action)
        if verdict is not None:
            self._remember(client, question, verdict)
            return verdict
        client.waiting_verdicts[question] = [then]
        self._outbox.requests.append(
            Judge(
                client.identity, topic, action, lambda answer: self._came(client, question, answer)
            )
        )
        return None

    def ask_author(
        self, author: Identity, topic: str, then: Callable[[Verdict], None]
    ) -> Verdict | None:
        """Return whether the author of a retained message may still publish it; as ``ask``."""
        if not self.is_restricted:
            return ReasonCode.SUCCESS
        known = self._authors.get(author)
        if known is None:
            if len(self._authors) >= MOST_AUTHORS:
                self.forget_authors()
            known = self._authors[author] = AccessSubject(author)
        return self.ask(known, topic, Action.PUBLISH, then)

    def may_use(self, identity: Identity, name: str) -> Verdict:
        """Return whether a client may use a named neighborhood."""
        verdict = self._control.verdict(identity, name, Action.USE_NEIGHBORHOOD)
        return ReasonCode.NOT_AUTHORIZED if verdict is None else verdict

    def ask_once(
        self, identity: Identity, topic: str, action: Action, then: Callable[[Verdict], None]
    ) -> Verdict | None:
        """Return the verdict for a client without a session, and do not remember it."""
        verdict = self._control.verdict(identity, topic, action)
        if verdict is None:
            self._outbox.requests.append(Judge(identity, topic, action, then))
        return verdict

    def forget(self, client: AccessSubject) -> None:
        """Forget the verdicts of a client; those that are requested already still count."""
        client.verdicts.clear()
        self.bytes -= self._sizes.pop(client, 0)
        if client.connection is not None:
            client.connection.may_publish.clear()

    def forget_authors(self) -> None:
        """Forget the verdicts of all authors of retained messages."""
        for author in self._authors.values():
            self.forget(author)
        self._authors.clear()

    def _came(self, client: AccessSubject, question: Question, verdict: Verdict) -> None:
        waiting = client.waiting_verdicts.pop(question)
        self._remember(client, question, verdict)
        for then in waiting:
            then(verdict)

    def _remember(self, client: AccessSubject, question: Question, verdict: Verdict) -> None:
        if len(client.verdicts) >= MOST_VERDICTS:
            self.forget(client)
        # The topic is there as text, and as bytes where a connection may publish to it.
        size = VERDICT_BYTES + 2 * getsizeof(question[1])
        if self.bytes + size > self._limit:
            for other in list(self._sizes):
                self.forget(other)
        client.verdicts[question] = verdict
        self._sizes[client] = self._sizes.get(client, 0) + size
        self.bytes += size
