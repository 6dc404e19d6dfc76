"""Flow control of what a client is owed with QoS 1 and 2: in flight, then the queue.

Pure bookkeeping: nothing is encoded or sent here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Final

from broker.limits import BrokerLimits
from broker.message import Message

if TYPE_CHECKING:
    from broker.subscription import Subscription

MAX_PACKET_ID: Final = 65_535


class Stage(Enum):
    """How far a delivery is."""

    WAITING = "waiting"  # in the queue
    SENT = "sent"  # until PUBACK or PUBREC
    RELEASED = "released"  # PUBREC came: until PUBCOMP


class Delivery:
    """One message owed to one session, because of these subscriptions."""

    __slots__ = (
        "message", "packet_id", "position", "qos", "retain", "stage", "subscriptions",
    )  # fmt: skip

    def __init__(
        self,
        message: Message,
        qos: int,
        subscriptions: tuple[Subscription, ...],
        *,
        retain: bool = False,
    ) -> None:
        self.message = message
        self.qos = qos
        self.subscriptions = subscriptions
        self.retain = retain
        self.stage = Stage.WAITING
        # 0 until it is first sent; then it keeps its identifier, also over reconnects.
        self.packet_id = 0
        # Its place in the session's order; 0: it is not recorded.
        self.position = 0


class OutgoingFlow:
    """Deliveries of one session. ``quota`` is the most that may be in flight at once."""

    __slots__ = ("_in_flight", "_last_id", "_limits", "bytes", "identified", "queue", "quota")

    def __init__(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self.quota = limits.in_flight
        self.queue: deque[Delivery] = deque()
        # Everything that has a packet identifier, in the order of first sending.
        self.identified: dict[int, Delivery] = {}
        # Sent on this connection, or released.
        self._in_flight = 0
        self._last_id = 0
        self.bytes = 0

    def restart(self, receive_maximum: int) -> Iterator[Delivery]:
        """A new connection: what was not acknowledged is to be sent again, before the queue.

        Gives the deliveries of which only PUBREL is to be repeated.
        """
        self.quota = min(self._limits.in_flight, receive_maximum)
        again = [one for one in self.identified.values() if one.stage is Stage.SENT]
        for delivery in again:
            delivery.stage = Stage.WAITING
        self.queue.extendleft(reversed(again))
        released = [one for one in self.identified.values() if one.stage is Stage.RELEASED]
        self._in_flight = len(released)
        return iter(released)

    @property
    def is_idle(self) -> bool:
        """Whether a delivery can start now without overtaking another."""
        return not self.queue and self._in_flight < self.quota

    @property
    def may_start(self) -> bool:
        """Whether one more may be in flight."""
        return self._in_flight < self.quota

    def has_room(self, size: int) -> bool:
        """Whether a message of ``size`` bytes may be kept; an empty flow takes any one."""
        if not self.queue and not self.identified:
            return True
        return (
            len(self.queue) < self._limits.queued_messages
            and self.bytes + size <= self._limits.queued_bytes
        )

    def enqueue(self, delivery: Delivery) -> None:
        """Put a delivery at the end of the queue."""
        self.queue.append(delivery)
        self.bytes += delivery.message.size

    def start(self, delivery: Delivery, *, queued: bool) -> bool:
        """Put a delivery in flight; whether it was sent before (so that it is a duplicate)."""
        if not queued:
            self.bytes += delivery.message.size
        again = delivery.packet_id != 0
        if not again:
            delivery.packet_id = self._free_id()
            self.identified[delivery.packet_id] = delivery
        delivery.stage = Stage.SENT
        self._in_flight += 1
        return again

    def take_back(self, delivery: Delivery) -> None:
        """Put what was to be sent, and was not yet, before what was never to be sent so far."""
        delivery.stage = Stage.WAITING
        self._in_flight -= 1
        place = 0
        while place < len(self.queue) and self.queue[place].packet_id:
            place += 1
        self.queue.insert(place, delivery)

    def discard(self, delivery: Delivery) -> None:
        """Forget a delivery that was taken from the queue and will not be sent."""
        self.bytes -= delivery.message.size
        if delivery.packet_id:
            del self.identified[delivery.packet_id]

    def release(self, packet_id: int) -> Delivery | None:
        """PUBREC came: from now on only PUBREL is sent for the message."""
        delivery = self.identified.get(packet_id)
        if delivery is None or delivery.stage is Stage.WAITING:
            return None
        if delivery.stage is Stage.SENT:
            delivery.stage = Stage.RELEASED
            self.bytes -= delivery.message.size
        return delivery

    def finish(self, packet_id: int) -> Delivery | None:
        """The message is acknowledged: its identifier is free."""
        delivery = self.identified.get(packet_id)
        if delivery is None or delivery.stage is Stage.WAITING:
            return None
        del self.identified[packet_id]
        if delivery.stage is Stage.SENT:
            self.bytes -= delivery.message.size
        self._in_flight -= 1
        return delivery

    def restore(self, delivery: Delivery) -> None:
        """Take back a delivery from before a restart."""
        if delivery.stage is not Stage.RELEASED:
            self.bytes += delivery.message.size
        if delivery.packet_id:
            self.identified[delivery.packet_id] = delivery
        else:
            self.queue.append(delivery)

    def _free_id(self) -> int:
        """An identifier that is not in use; there is one, because far fewer may be in flight."""
        candidate = self._last_id % MAX_PACKET_ID + 1
        while candidate in self.identified:
            candidate = candidate % MAX_PACKET_ID + 1
        self._last_id = candidate
        return candidate
