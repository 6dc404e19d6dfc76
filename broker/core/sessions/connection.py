"""One network connection: its state, its limits, and what is to be written to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from broker.codec.fields import Inbox
from broker.codec.protocol_levels import MQTT_5, Codec
from broker.codec.reason_codes import ProtocolError, ReasonCode, violation
from broker.core.limits import BrokerLimits
from broker.core.sessions.refusal_log import RefusalLog

if TYPE_CHECKING:
    from broker.core.core_state import Timer
    from broker.core.requests import PromisedPacket
    from broker.core.retained.retained_delivery import RetainedBacklog
    from broker.core.sessions.session import Session
    from broker.core.subscribe.subscribe_jobs import QueuedJob
    from broker.core.verdicts import Identity
    from broker.filter.memberships import Slots


class IncomingAliases:
    """The topics that a client's aliases stand for, as bytes of the packet."""

    __slots__ = ("_maximum", "_topics", "bytes")

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._topics: dict[int, bytes] = {}
        # What the topics take in memory.
        self.bytes = 0

    def resolve(self, alias: int, topic: bytes) -> bytes:
        """Return the topic of a PUBLISH with this alias; a topic that is given is remembered."""
        if alias > self._maximum:
            raise ProtocolError(
                ReasonCode.TOPIC_ALIAS_INVALID,
                f"topic alias {alias}; at most {self._maximum} is accepted",
            )
        if topic:
            self.bytes += len(topic) - len(self._topics.get(alias, b""))
            self._topics[alias] = topic
            return topic
        known = self._topics.get(alias)
        if known is None:
            # 3.3.2.3.4: an alias without a mapping is a protocol error; 0x94 means its number.
            raise violation(f"topic alias {alias} stands for nothing yet")
        return known


class OutgoingAliases:
    """Aliases for the first topics that a client gets, as many as it allows.

    No more topics than fit ``most_bytes`` get one: the others are written out.
    """

    __slots__ = ("_aliases", "_bytes_left", "_maximum")

    def __init__(self, maximum: int, most_bytes: int) -> None:
        self._maximum = maximum
        self._bytes_left = most_bytes
        self._aliases: dict[bytes, int] = {}

    def of(self, topic_field: bytes) -> tuple[int, bool]:
        """Return the alias of a topic, 0 if it has none, and whether the client knows it."""
        alias = self._aliases.get(topic_field)
        if alias is not None:
            return alias, True
        if len(self._aliases) == self._maximum or len(topic_field) > self._bytes_left:
            return 0, False
        return len(self._aliases) + 1, False

    def sent(self, topic_field: bytes, alias: int) -> None:
        """Note that a packet has introduced the alias to the client."""
        self._aliases[topic_field] = alias
        self._bytes_left -= len(topic_field)


class State(Enum):
    """The states of a connection; it never goes back to an earlier one."""

    NEW = "new"  # waits for CONNECT
    CONNECTING = "connecting"  # CONNECT came, CONNACK has not gone out
    CONNECTED = "connected"
    CLOSED = "closed"


class Connection:
    """Made by ``Core.open``. ``peer`` is the shell's own: the core never touches it."""

    __slots__ = (
        "_backlog_bytes", "address", "aliases_in", "aliases_out", "backlog", "claim", "codec",
        "connect_timer", "connected_at", "failed", "fast_session", "found", "has_properties",
        "held", "host", "inbox", "is_blocked", "is_paused", "keep_alive", "keep_alive_timer",
        "last_seen", "maximum_packet_size", "may_publish", "out", "packet_limit", "peer",
        "promised", "refusals", "session", "state", "subscribe_queue", "waits_for_answers",
        "wants_reasons",
    )  # fmt: skip

    def __init__(
        self,
        limits: BrokerLimits,
        now: float,
        peer: Any = None,
        address: str | None = None,
        host: str | None = None,
    ) -> None:
        self.peer = peer
        self.state = State.NEW
        # Of the client's version of MQTT, from its CONNECT on; ``use`` alone sets both.
        self.codec = MQTT_5
        self.has_properties = True
        self.session: Session | None = None
        # The same while a client of MQTT 5 is connected: the fast path asks for nothing else.
        self.fast_session: Session | None = None
        # The client's address: for the log, and as far as quotas distinguish addresses.
        self.address = address
        self.host = host
        # Who the client says it is, before that is proven.
        self.claim: Identity | None = None
        self.connected_at: float | None = None
        self.last_seen = now

        # Input.
        self.inbox = Inbox()
        self.packet_limit = limits.packet_bytes_before_connect
        # Whether it waits for an answer. Input that comes meanwhile is in ``held``.
        self.is_blocked = False
        self.held: list[bytes] = []
        # Whether it is blocked until the broker has acknowledged earlier messages.
        self.waits_for_answers = False
        self.aliases_in = IncomingAliases(limits.topic_aliases_in)
        # Topics that it has been allowed to publish to.
        self.may_publish: set[bytes] = set()
        # Memberships that were asked for, for the input that was held; peids and keys of entities
        # for which there was no answer.
        self.found: Mapping[int, Slots] = {}
        self.failed: frozenset[int | str] = frozenset()
        # SUBSCRIBE and UNSUBSCRIBE, one after the other; the first is being worked on.
        self.subscribe_queue: deque[QueuedJob] = deque()

        # Output.
        self.out: list[bytes] = []
        self.promised: deque[PromisedPacket] = deque()
        self.is_paused = False
        self.aliases_out: OutgoingAliases | None = None
        self.maximum_packet_size: int | None = None
        # Whether the client wants reason strings and user properties in acknowledgements.
        self.wants_reasons = True
        self.backlog: deque[RetainedBacklog] = deque()
        self._backlog_bytes = 0

        self.refusals = RefusalLog()

        # Time.
        self.keep_alive = 0
        self.connect_timer: Timer | None = None
        self.keep_alive_timer: Timer | None = None

    def use(self, codec: Codec) -> None:
        """Set the version of MQTT that the client speaks."""
        self.codec = codec
        self.has_properties = codec.has_properties

    def begin(self) -> None:
        """Note that CONNACK was sent, and the client is at work."""
        self.state = State.CONNECTED
        if self.has_properties:
            self.fast_session = self.session

    def end(self) -> None:
        """Note that nothing is read or written any more."""
        self.state = State.CLOSED
        self.fast_session = None

    def takes(self, size: int) -> bool:
        """Return whether a packet of so many bytes is within the client's limit."""
        return self.maximum_packet_size is None or size <= self.maximum_packet_size

    def best_packet(self, plain: bytes, full: Callable[[], bytes]) -> bytes:
        """Return the packet with reason string and user properties, or else ``plain``.

        ``plain`` is for a client that wants no reasons, or takes no packet as long as ``full``.
        """
        return packet if self.wants_reasons and self.takes(len(packet := full())) else plain

    def add_backlogs(self, backlogs: Iterable[RetainedBacklog]) -> None:
        """Add retained messages that are to be sent to the client."""
        for backlog in backlogs:
            self.backlog.append(backlog)
            self._backlog_bytes += backlog.bytes

    def end_backlog(self) -> None:
        """Remove the first backlog, all of whose messages were sent."""
        self._backlog_bytes -= self.backlog.popleft().bytes

    @property
    def input_bytes(self) -> int:
        """The bytes of input that it holds, and of backlogs and jobs that came of input."""
        size = len(self.inbox.pending) + self.aliases_in.bytes
        if self.backlog:
            size += self._backlog_bytes + self.backlog[0].search_bytes
        if self.held:
            size += sum(map(len, self.held))
        if self.subscribe_queue:
            size += sum([job.bytes for job in self.subscribe_queue])
        return size

    @property
    def is_closed(self) -> bool:
        """Whether it is closed: nothing is read or written any more."""
        return self.state is State.CLOSED

    @property
    def takes_plain_copies(self) -> bool:
        """Whether a packet of its version may be appended to the output as it is."""
        return (
            self.state is State.CONNECTED
            and not self.is_paused
            and self.aliases_out is None
            and self.maximum_packet_size is None
        )

    @property
    def log_fields(self) -> dict[str, Any]:
        """The client and its address, for a line of the log."""
        identity = self.claim if self.session is None else self.session.identity
        return {
            "client": None if identity is None else identity.client_id,
            "user": None if identity is None else identity.user_name,
            "from": self.address,
        }
