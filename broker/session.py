"""What outlives a connection: subscriptions, flow control, verdicts, expiry."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.access import Action, Identity, Verdict
from broker.incoming import IncomingFlow
from broker.journal import SessionSaved, Will
from broker.limits import BrokerLimits
from broker.outgoing import OutgoingFlow
from broker.timers import Timer

if TYPE_CHECKING:
    from broker.connection import Connection
    from broker.subscription import Subscription, SubscriptionKey

NEVER_EXPIRES: Final = 0xFFFF_FFFF


class Session:
    """The state of one client id. Compared by identity.

    ``direct`` is the connection while QoS 0 copies may be put into its output as they are: it
    is reading, has no aliases and no packet limit of its own. None: take the long way.
    """

    __slots__ = (
        "connection", "direct", "expires_at", "expiry_interval", "expiry_timer", "identity",
        "incoming", "is_recorded", "last_position", "next_nsid", "outgoing", "subscriptions",
        "verdicts", "waiting_verdicts", "will", "will_at", "will_timer",
    )  # fmt: skip

    def __init__(self, identity: Identity, limits: BrokerLimits) -> None:
        self.identity = identity
        self.connection: Connection | None = None
        self.direct: Connection | None = None
        self.subscriptions: dict[SubscriptionKey, Subscription] = {}
        self.next_nsid = 1
        self.incoming = IncomingFlow(limits.receive_maximum)
        self.outgoing = OutgoingFlow(limits)
        self.expiry_interval = 0
        self.expires_at: float | None = None
        self.expiry_timer: Timer | None = None
        # Whether it is kept beyond this process.
        self.is_recorded = False
        self.last_position = 0
        self.will: Will | None = None
        self.will_at: float | None = None
        self.will_timer: Timer | None = None
        self.verdicts: dict[tuple[Action, str], Verdict] = {}
        self.waiting_verdicts: dict[tuple[Action, str], list[Callable[[Verdict], None]]] = {}

    @property
    def client_id(self) -> str:
        """What names the session."""
        return self.identity.client_id

    @property
    def neighborhoods(self) -> int:
        """How many of its subscriptions have a neighborhood."""
        return sum(1 for key in self.subscriptions if not isinstance(key, str))


def record_of(session: Session) -> SessionSaved:
    """The session as the journal keeps it."""
    return SessionSaved(
        session.client_id,
        session.identity.user_name,
        session.expiry_interval,
        session.expires_at,
        session.will,
        session.will_at,
    )
