"""A lean MQTT 5 client on asyncio that hides nothing: each packet, flag and connection shows."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

import mqtt5

AN_HOUR = 3_600
PING_SECONDS = 20.0
CONNECT_SECONDS = 20.0


class LinkLostError(Exception):
    """The connection is gone."""


class Link:
    """One connection; ``session_present`` is what CONNACK said."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._rest = b""
        # Read and not handed over yet: more may come with a CONNACK.
        self._read: deque[mqtt5.Packet] = deque()
        self.session_present = False
        self._pinging = asyncio.create_task(self._ping(), name="ping")

    def send(self, packet: mqtt5.Packet) -> None:
        """Send one packet, or lose it with the connection."""
        if not self._writer.is_closing():
            self._writer.write(packet.write())

    async def packets(self) -> AsyncIterator[mqtt5.Packet]:
        """All packets that come, until the connection is gone."""
        while True:
            while self._read:
                yield self._read.popleft()
            try:
                piece = await self._reader.read(65_536)
            except OSError as error:
                raise LinkLostError from error
            if not piece:
                raise LinkLostError
            self._rest += piece
            self._take_whole_packets()

    def _take_whole_packets(self) -> None:
        view = memoryview(self._rest)
        while view:
            try:
                packet, size = mqtt5.read(view)
            except IndexError:  # the rest has not come yet
                break
            self._read.append(packet)
            view = view[size:]
        self._rest = bytes(view)

    def cut(self) -> None:
        """Go away without a word."""
        self._pinging.cancel()
        self._writer.transport.abort()

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(PING_SECONDS)
            self.send(mqtt5.PingReqPacket())


async def open_link(port: int, client_id: str, *, is_new: bool) -> Link:
    """Connect with a session that outlives the connection; LinkLostError when nobody is there."""
    link = None
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            link = Link(reader, writer)
            link.send(
                mqtt5.ConnectPacket(
                    client_id, clean_start=is_new, keep_alive=60, session_expiry_interval=AN_HOUR
                )
            )
            async with contextlib.aclosing(link.packets()) as packets:
                async for packet in packets:
                    if isinstance(packet, mqtt5.ConnAckPacket):
                        link.session_present = packet.session_present
                        return link
    except (OSError, TimeoutError) as error:
        if link is not None:
            link.cut()
        raise LinkLostError from error
    raise LinkLostError
