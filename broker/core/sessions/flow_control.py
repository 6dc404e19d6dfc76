"""Flow control of QoS 1 and 2 towards a client. Nothing is encoded or sent here."""

from __future__ import annotations

from collections import deque
from typing import Final, cast

from broker.core.counters import Drop
from broker.core.limits import Account, BrokerLimits
from broker.core.message import DELIVERY_BYTES, Delivery, Stage
from broker.core.plain_delivery import PlainDelivery, to_delivery

MAX_PACKET_ID: Final = 65_535


class OutgoingFlow:
    """Deliveries of one session: in flight, then the queue. At most ``quota`` are in flight."""

    __slots__ = (
        "_account", "_charged", "_in_flight", "_last_id", "_limits", "_spare", "bytes", "queue",
        "quota", "unacknowledged",
    )  # fmt: skip

    def __init__(self, limits: BrokerLimits, account: Account) -> None:
        self._limits = limits
        self._account = account
        self.quota = limits.in_flight
        self.queue: deque[Delivery] = deque()
        # Everything that has a packet identifier, in the order of first sending.
        self.unacknowledged: dict[int, Delivery | PlainDelivery] = {}
        # Sent on this connection, or released.
        self._in_flight = 0
        self._last_id = 0
        self.bytes = 0
        # What the user's account is charged with: never less than the bytes.
        self._charged = 0
        self._spare = min(limits.queued_bytes >> 8, limits.total_queued_bytes >> 13)

    @property
    def identified(self) -> dict[int, Delivery]:
        """Everything that has a packet identifier, as objects."""
        found = self.unacknowledged
        for packet_id, one in found.items():
            if isinstance(one, tuple):
                found[packet_id] = to_delivery(one, packet_id)
        return cast("dict[int, Delivery]", found)

    def find(self, packet_id: int) -> Delivery | None:
        """Return what has a packet identifier, as an object."""
        one = self.unacknowledged.get(packet_id)
        if isinstance(one, tuple):
            one = self.unacknowledged[packet_id] = to_delivery(one, packet_id)
        return one

    def restart(self, receive_maximum: int) -> list[Delivery]:
        """Begin on a new connection: what was not acknowledged is sent again, before the queue.

        Return the deliveries of which only PUBREL is to be repeated.
        """
        self.quota = min(self._limits.in_flight, receive_maximum)
        again = [one for one in self.identified.values() if one.stage is Stage.SENT]
        for delivery in again:
            delivery.stage = Stage.WAITING
        self.queue.extendleft(reversed(again))
        released = [one for one in self.identified.values() if one.stage is Stage.RELEASED]
        self._in_flight = len(released)
        return released

    @property
    def may_start(self) -> bool:
        """Whether one more may be in flight."""
        return self._in_flight < self.quota

    @property
    def is_idle(self) -> bool:
        """Whether a delivery can start now without overtaking another."""
        return not self.queue and self._in_flight < self.quota

    def takes_at_once(self, size: int) -> bool:
        """Return whether a delivery of a message can start now, within limits and in order."""
        return (
            not self.queue
            and self._in_flight < self.quota
            and (
                self.bytes + size + DELIVERY_BYTES <= self._charged
                or self.reason_to_refuse(size + DELIVERY_BYTES) is None
            )
        )

    def reason_to_refuse(self, size: int) -> Drop | None:
        """Return why a delivery of ``size`` bytes cannot be kept, or None when it can."""
        # By the session's own limits an empty flow takes any one.
        if self.queue or self.unacknowledged:
            limits = self._limits
            if len(self.queue) >= limits.queued_messages or self.bytes + size > limits.queued_bytes:
                return Drop.QUEUE_FULL
        if self.bytes + size <= self._charged or self._account.has_room(size):
            return None
        return Drop.TOTAL_QUEUE_FULL

    def enqueue(self, delivery: Delivery) -> None:
        """Put a delivery at the end of the queue."""
        self.queue.append(delivery)
        self._count(delivery.size)

    def clear(self) -> None:
        """Forget everything, because the session has ended."""
        self.queue.clear()
        self.unacknowledged.clear()
        self._in_flight = 0
        self.bytes = 0
        self.charge()

    def start(self, delivery: Delivery, *, queued: bool) -> bool:
        """Put a delivery in flight; return whether it was sent before, and so is a duplicate."""
        if not queued:
            self.bytes = held = self.bytes + delivery.size
            if held > self._charged:
                self.charge(self._spare)
        again = delivery.packet_id != 0
        if not again:
            delivery.packet_id = self._free_id()
            self.unacknowledged[delivery.packet_id] = delivery
        delivery.stage = Stage.SENT
        self._in_flight += 1
        return again

    def start_plain(self, plain: PlainDelivery, size: int) -> int:
        """Put a delivery of the fast path in flight; return its packet identifier.

        Return 0 if it cannot start now, within limits and in order.
        """
        if self.queue or self._in_flight >= self.quota:
            return 0
        held = self.bytes + size
        if held > self._charged:
            if self.reason_to_refuse(size) is not None:
                return 0
            self.bytes = held
            self.charge(self._spare)
        else:
            self.bytes = held
        packet_id = self._free_id()
        self.unacknowledged[packet_id] = plain
        self._in_flight += 1
        return packet_id

    def finish_plain(self, count: int, size: int) -> None:
        """Count deliveries of the fast path that were acknowledged and taken out."""
        self.bytes = held = self.bytes - size
        if held + 2 * self._spare < self._charged:
            self.charge(self._spare)
        self._in_flight -= count

    def take_back(self, delivery: Delivery) -> None:
        """Queue a delivery that waits for the journal again, before those without an identifier."""
        delivery.stage = Stage.WAITING
        self._in_flight -= 1
        place = 0
        while place < len(self.queue) and self.queue[place].packet_id:
            place += 1
        self.queue.insert(place, delivery)

    def discard(self, delivery: Delivery) -> None:
        """Forget a delivery that was taken from the queue and will not be sent."""
        self._count(-delivery.size)
        if delivery.packet_id:
            del self.unacknowledged[delivery.packet_id]

    def release(self, packet_id: int) -> Delivery | None:
        """Take PUBREC: from now on only PUBREL is sent for the message."""
        delivery = self.find(packet_id)
        if delivery is None or delivery.stage is Stage.WAITING:
            return None
        if delivery.stage is Stage.SENT:
            delivery.stage = Stage.RELEASED
            self._count(-delivery.release())
        return delivery

    def finish(self, packet_id: int) -> Delivery | None:
        """Take the last acknowledgement of a message: its identifier is free."""
        delivery = self.find(packet_id)
        if delivery is None or delivery.stage is Stage.WAITING:
            return None
        del self.unacknowledged[packet_id]
        self.bytes = held = self.bytes - delivery.size
        if held + 2 * self._spare < self._charged:
            self.charge(self._spare)
        self._in_flight -= 1
        return delivery

    def restore(self, delivery: Delivery) -> None:
        """Take over a delivery of an earlier run."""
        if delivery.stage is Stage.RELEASED:
            delivery.release()
        self._count(delivery.size)
        if delivery.packet_id:
            self.unacknowledged[delivery.packet_id] = delivery
        else:
            self.queue.append(delivery)

    def charge(self, spare: int = 0) -> None:
        """Charge the user's account with what is held, and with up to as much again to spare.

        So most deliveries to a client that reads come and go without a change of the account.
        """
        charged = self.bytes + min(self.bytes, spare)
        self._account.add(charged - self._charged)
        self._charged = charged

    def _count(self, size: int) -> None:
        self.bytes += size
        self.charge()

    def _free_id(self) -> int:
        """Return an identifier that is not in use; far fewer may be in flight than there are."""
        candidate = self._last_id % MAX_PACKET_ID + 1
        while candidate in self.unacknowledged:
            candidate = candidate % MAX_PACKET_ID + 1
        self._last_id = candidate
        return candidate
