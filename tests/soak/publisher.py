"""Publishers: a steady rate, QoS 1, and everything again that was not acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time

import mqtt5

from tests.soak.ground import Ground
from tests.soak.link import Link, LinkLostError, open_link
from tests.soak.records import Records, Sent

TOPICS = ("traffic/flow", "traffic/jam", "parking/free", "parking/closed/now")
RECONNECT_SECONDS = 0.2
# Under way at once; the broker allows 1,000.
MOST_OPEN = 500


class Publisher:
    """One of them. ``run`` until ``end`` is called, then until all is acknowledged."""

    def __init__(self, name: str, port: int, rate: float, ground: Ground, records: Records) -> None:
        self._name = name
        self._port = port
        self._rate = rate
        self._ground = ground
        self._records = records
        self._dice = random.Random(name)  # noqa: S311 - no secret
        # Sent and not acknowledged, by packet identifier, in the order of sending.
        self._open: dict[int, Sent] = {}
        self._number = 0
        self._packet_id = 0
        self._ended = False
        self._link: Link | None = None

    def end(self) -> None:
        """No new messages from now on."""
        self._ended = True
        if self._link is not None and not self._open:
            self._link.cut()

    async def run(self) -> None:
        """Come back whenever the connection is lost."""
        is_new = True
        start = time.monotonic()
        while self._open or not self._ended:
            try:
                link = await open_link(self._port, self._name, is_new=is_new)
            except LinkLostError:
                await asyncio.sleep(RECONNECT_SECONDS)
                continue
            is_new = False
            self._link = link
            for packet_id in self._open:
                self._send(link, packet_id)
            sending = asyncio.create_task(self._send_all(link, start))
            try:
                await self._listen(link)
            except LinkLostError:
                pass
            finally:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await sending
                self._link = None
                link.cut()

    async def _send_all(self, link: Link, start: float) -> None:
        """What is due, at the rate; what fell due while the broker was away comes at once."""
        while not self._ended:
            due = start + self._number / self._rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if self._ended:
                return
            if len(self._open) >= MOST_OPEN:
                await asyncio.sleep(0.01)
                continue
            message = Sent(
                self._name, self._number, self._dice.choice(TOPICS),
                self._ground.draw_peid(self._dice), due,
            )  # fmt: skip
            self._number += 1
            self._packet_id = self._packet_id % 60_000 + 1
            self._open[self._packet_id] = message
            self._records.sent[message.name] = message
            self._send(link, self._packet_id)

    def _send(self, link: Link, packet_id: int) -> None:
        message = self._open[packet_id]
        message.sends.append(time.monotonic())
        packet = mqtt5.PublishPacket(
            message.topic, message.name.encode(), qos=mqtt5.QoS.AT_LEAST_ONCE,
            packet_id=packet_id, duplicate=len(message.sends) > 1,
            user_properties=[("peid", str(message.peid))],
        )  # fmt: skip
        link.send(packet)

    async def _listen(self, link: Link) -> None:
        async with contextlib.aclosing(link.packets()) as packets:
            async for packet in packets:
                if not isinstance(packet, mqtt5.PubAckPacket):
                    continue
                message = self._open.pop(packet.packet_id, None)
                if message is not None:
                    message.acknowledged = time.monotonic()
                    message.code = int(packet.reason_code)
                if self._ended and not self._open:
                    return
