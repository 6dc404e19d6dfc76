"""Flow control of what a client publishes with QoS 1 and 2."""

from __future__ import annotations

from typing import Final

from broker.codec.reason_codes import ProtocolError, ReasonCode
from broker.core.fair_share import Account

# What an identifier takes in memory, and its field in Redis.
IDENTIFIER_BYTES: Final = 130


class IncomingFlow:
    """Identifiers of QoS 2 messages that were taken over and not yet released.

    ``received`` outlives connections, and the user's account is charged for it; what counts
    against the receive maximum is the business of one connection.
    """

    __slots__ = ("_account", "_maximum", "_open", "_unanswered", "received")

    def __init__(self, maximum: int, account: Account) -> None:
        self._maximum = maximum
        self._account = account
        self.received: set[int] = set()
        self._open: set[int] = set()
        self._unanswered = 0

    def restart(self) -> None:
        """A new connection: nothing is open on it yet."""
        self._open = set()
        self._unanswered = 0

    def begin_qos1(self) -> None:
        """A QoS 1 PUBLISH came in."""
        self._check_maximum()
        self._unanswered += 1

    def answered_qos1(self) -> None:
        """Its PUBACK went out."""
        self._unanswered -= 1

    def begin_qos2(self, packet_id: int) -> bool:
        """A QoS 2 PUBLISH came in; whether it is a repetition of one that was taken over."""
        if packet_id not in self._open:
            self._check_maximum()
            self._open.add(packet_id)
        return packet_id in self.received

    def accept_qos2(self, packet_id: int) -> None:
        """The message is taken over: from now on the identifier means a repetition."""
        if packet_id not in self.received:
            self.received.add(packet_id)
            self._account.add(IDENTIFIER_BYTES)

    def has_room(self) -> bool:
        """Return whether one more identifier can be kept."""
        return self._account.has_room(IDENTIFIER_BYTES)

    def clear(self) -> None:
        """Forget everything: the session is over."""
        self._account.add(-IDENTIFIER_BYTES * len(self.received))
        self.received.clear()

    def refuse_qos2(self, packet_id: int) -> None:
        """The message was refused by PUBREC: its identifier is free again."""
        self._open.discard(packet_id)

    def release(self, packet_id: int) -> bool:
        """PUBREL came in; whether there was such a message."""
        self._open.discard(packet_id)
        if packet_id in self.received:
            self.received.remove(packet_id)
            self._account.add(-IDENTIFIER_BYTES)
            return True
        return False

    def _check_maximum(self) -> None:
        if len(self._open) + self._unanswered >= self._maximum:
            raise ProtocolError(
                ReasonCode.RECEIVE_MAXIMUM_EXCEEDED,
                f"more than {self._maximum} messages without an acknowledgement",
            )
