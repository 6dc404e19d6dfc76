"""Flow control of a client's messages of QoS 1 and 2. Nothing is decoded or answered here."""

from __future__ import annotations

from typing import Final

from broker.codec.reason_codes import ProtocolError, ReasonCode
from broker.core.limits import Account

# What an identifier of a client's message takes in memory, and its field in Redis.
IDENTIFIER_BYTES: Final = 130


class IncomingFlow:
    """Identifiers of QoS 2 messages that were taken over and not yet released.

    ``received`` outlives connections, and the user's account is charged for it. What counts
    against the receive maximum belongs to one connection.
    """

    __slots__ = ("_account", "_maximum", "_open", "_unanswered", "received")

    def __init__(self, maximum: int, account: Account) -> None:
        self._maximum = maximum
        self._account = account
        self.received: set[int] = set()
        self._open: set[int] = set()
        self._unanswered = 0

    def restart(self, maximum: int) -> None:
        """Begin on a new connection, on which nothing is open, with another receive maximum."""
        self._maximum = maximum
        self._open = set()
        self._unanswered = 0

    @property
    def unanswered(self) -> int:
        """The number of QoS 1 messages whose PUBACK was not sent."""
        return self._unanswered

    @property
    def room(self) -> int:
        """How many more may be without an answer."""
        return self._maximum - self._unanswered - len(self._open)

    def begin_many_qos1(self, count: int) -> None:
        """Take QoS 1 PUBLISHes for which there is room."""
        self._unanswered += count

    def begin_qos1(self) -> None:
        """Take a QoS 1 PUBLISH; ProtocolError beyond the receive maximum."""
        self._check_maximum()
        self._unanswered += 1

    def answered_qos1(self, count: int = 1) -> None:
        """Note that its PUBACK was sent, or those of so many."""
        self._unanswered -= count

    def begin_qos2(self, packet_id: int) -> None:
        """Take a QoS 2 PUBLISH; ProtocolError beyond the receive maximum."""
        if packet_id not in self._open:
            self._check_maximum()
            self._open.add(packet_id)

    def accept_qos2(self, packet_id: int) -> None:
        """Note that the message is taken over: the identifier means a repetition from now on."""
        if packet_id not in self.received:
            self.received.add(packet_id)
            self._account.add(IDENTIFIER_BYTES)

    def has_room(self) -> bool:
        """Return whether one more identifier can be kept."""
        return self._account.has_room(IDENTIFIER_BYTES)

    def clear(self) -> None:
        """Forget everything, because the session has ended."""
        self._account.add(-IDENTIFIER_BYTES * len(self.received))
        self.received.clear()

    def refuse_qos2(self, packet_id: int) -> None:
        """Note that PUBREC refused the message: its identifier is free again."""
        self._open.discard(packet_id)

    def release(self, packet_id: int) -> bool:
        """Take PUBREL; return whether there was such a message."""
        self._open.discard(packet_id)
        if packet_id not in self.received:
            return False
        self.received.remove(packet_id)
        self._account.add(-IDENTIFIER_BYTES)
        return True

    def _check_maximum(self) -> None:
        if len(self._open) + self._unanswered >= self._maximum:
            text = f"more than {self._maximum} messages without an acknowledgement"
            raise ProtocolError(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, text)
