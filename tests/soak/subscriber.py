"""Subscribers: durable sessions, subscriptions that come and go, connections that break."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time

import mqtt5

from schemas.mqtt_names import NEIGHBORHOOD, NSID, PEID
from tests.soak.ground import Ground
from tests.soak.link import Link, LinkLostError, open_link
from tests.soak.records import PLAIN, PLAIN_NSID, Change, Received, Reconnect, Records

RECONNECT_SECONDS = 0.2
# What waits for a subscription that ends is dropped: after a reconnect it gets time to come.
SETTLED_SECONDS = 1.5


class Subscriber:
    """One of them. ``ack_seconds`` is how long it lets acknowledgements gather."""

    def __init__(
        self, name: str, port: int, ground: Ground, records: Records, ack_seconds: float = 0.0
    ) -> None:
        self.name = name
        self._port = port
        self._ground = ground
        self._records = records
        self._ack_seconds = ack_seconds
        self._connection = 0
        self._connected_at = float("inf")
        self._link: Link | None = None
        self._packet_id = 0
        self._asked: dict[int, asyncio.Future[tuple[mqtt5.Packet, float]]] = {}
        self._to_acknowledge: list[int] = []
        self._away_seconds = RECONNECT_SECONDS
        # What it holds, by nsid: filter and neighborhood.
        self.held: dict[int, tuple[str, int]] = {}
        self.changing: set[int] = set()

    @property
    def is_settled(self) -> bool:
        """Whether it has been connected for a while."""
        return time.monotonic() - self._connected_at > SETTLED_SECONDS

    async def run(self) -> None:
        """Stay connected until cancelled."""
        try:
            while True:
                with contextlib.suppress(LinkLostError):
                    await self._connected()
                self._connected_at = float("inf")
                self._link = None
                for future in self._asked.values():
                    if not future.done():
                        future.set_exception(LinkLostError())
                self._asked.clear()
                self._to_acknowledge.clear()
                await asyncio.sleep(self._away_seconds)
                self._away_seconds = RECONNECT_SECONDS
        finally:
            if self._link is not None:
                self._link.cut()

    async def _connected(self) -> None:
        link = await open_link(self._port, self.name, is_new=self._connection == 0)
        if self._connection:
            back = Reconnect(self.name, time.monotonic(), link.session_present)
            self._records.reconnects.append(back)
        self._connection += 1
        self._link = link
        self._connected_at = time.monotonic()
        acknowledging = asyncio.create_task(self._acknowledge(link))
        try:
            async with contextlib.aclosing(link.packets()) as packets:
                async for packet in packets:
                    self._take(link, packet)
        finally:
            acknowledging.cancel()
            link.cut()

    def _take(self, link: Link, packet: mqtt5.Packet) -> None:
        if isinstance(packet, mqtt5.PublishPacket):
            self._note(packet)
            if self._ack_seconds:
                self._to_acknowledge.append(packet.packet_id)
            else:
                link.send(mqtt5.PubAckPacket(packet.packet_id))
        elif isinstance(packet, mqtt5.SubAckPacket | mqtt5.UnsubAckPacket):
            future = self._asked.pop(packet.packet_id, None)
            if future is not None and not future.done():
                # The time in the order of the packets: the task that waits runs later.
                future.set_result((packet, time.monotonic()))

    def _note(self, packet: mqtt5.PublishPacket) -> None:
        pairs = packet.user_properties
        peids = [value for name, value in pairs if name == PEID]
        copy = Received(
            self.name, self._connection, time.monotonic(), bytes(packet.payload).decode(),
            packet.topic, int(peids[0]) if len(peids) == 1 else None,
            tuple(int(value) for name, value in pairs if name == NSID), packet.duplicate,
        )  # fmt: skip
        self._records.received.append(copy)

    async def _acknowledge(self, link: Link) -> None:
        while self._ack_seconds:
            await asyncio.sleep(self._ack_seconds)
            for packet_id in self._to_acknowledge:
                link.send(mqtt5.PubAckPacket(packet_id))
            self._to_acknowledge.clear()

    def cut(self, away_seconds: float) -> None:
        """Break the connection, and stay away for a while."""
        if self._link is not None:
            self._away_seconds = away_seconds
            self._link.cut()

    async def change(self, nsid: int, topic_filter: str, neighborhood: int | None) -> Change:
        """Subscribe, replace or give back; asked again on each connection until answered."""
        self.changing.add(nsid)
        note = Change(self.name, nsid, topic_filter, neighborhood, time.monotonic(), attempts=0)
        self._records.changes.append(note)
        while note.answered is None:
            if self._link is None:
                await asyncio.sleep(0.05)
                continue
            note.attempts += 1
            if note.attempts == 1:
                note.sent = time.monotonic()
            with contextlib.suppress(LinkLostError):
                packet, at = await self._ask(self._link, note)
                note.code = max(int(code) for code in packet.reason_codes)
                note.answered = at
        if not note.is_refused:
            if neighborhood is None:
                self.held.pop(nsid, None)
            else:
                self.held[nsid] = (topic_filter, neighborhood)
        self.changing.discard(nsid)
        return note

    def _ask(self, link: Link, note: Change) -> asyncio.Future[tuple[mqtt5.Packet, float]]:
        self._packet_id = self._packet_id % 60_000 + 1
        future = asyncio.get_running_loop().create_future()
        self._asked[self._packet_id] = future
        nsid = [] if note.nsid == PLAIN_NSID else [(NSID, str(note.nsid))]
        if note.neighborhood is None:
            link.send(
                mqtt5.UnsubscribePacket(self._packet_id, [note.topic_filter], user_properties=nsid)
            )
            return future
        if note.neighborhood != PLAIN:
            nsid.insert(0, (NEIGHBORHOOD, self._ground.descriptors[note.neighborhood]))
        asked = mqtt5.TopicFilter(note.topic_filter, max_qos=mqtt5.QoS.AT_LEAST_ONCE)
        link.send(mqtt5.SubscribePacket(self._packet_id, [asked], user_properties=nsid))
        return future


FILTERS = ("traffic/#", "traffic/+", "parking/#", "+/flow", "#")


async def churn(subscriber: Subscriber, nsid: int, neighborhoods: int, dice: random.Random) -> None:
    """One change of one subscription: made, replaced, renewed or given back."""
    held = subscriber.held.get(nsid)
    fresh = (dice.choice(FILTERS), dice.randrange(neighborhoods))
    if held is None or dice.random() < 0.4:
        note = await subscriber.change(nsid, *fresh)
    elif dice.random() < 0.25:
        note = await subscriber.change(nsid, *held)
    else:
        note = await subscriber.change(nsid, held[0], None)
    if note.is_refused and note.attempts > 1:
        # An earlier attempt may have been granted before its answer was lost.
        await subscriber.change(nsid, note.topic_filter, None)
