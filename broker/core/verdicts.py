"""Access control as the core sees it: a question, a verdict, and a memory of verdicts.

Who decides is not known here. A decider may answer at once or later; in between the core
holds back exactly what depends on the answer, in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from broker.codec.reason_codes import ReasonCode

# SUCCESS allows; any error code refuses and is what the client gets to see.
Verdict: TypeAlias = ReasonCode


class Action(Enum):
    """What a client wants to do with a topic."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"  # the topic is a filter, of a shared subscription the inner one
    RECEIVE = "receive"


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
    """Decides about topics."""

    def verdict(self, client: Identity, topic: str, action: Action) -> Verdict | None:
        """The decision, or None: then a ``Judge`` request asks for it and the core waits."""


class AllowAll:
    """No topic rules at all."""

    def verdict(self, client: Identity, topic: str, action: Action) -> Verdict:  # noqa: ARG002 - the protocol's shape
        """Everything is allowed."""
        return ReasonCode.SUCCESS
