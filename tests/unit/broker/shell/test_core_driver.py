"""One turn of the event loop: what all clients sent is worked off, then each gets one write."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from broker.core.sessions.connection import Connection
from broker.core.sessions.intake import Intake
from broker.shell.core_driver import MANY_BYTES
from broker.shell.network.links import TcpLink
from broker.shell.service import BrokerService
from schemas.settings import load_settings
from tests.servers.raw_client import (
    CONNACK,
    DISCONNECT,
    connect_packet,
    publish_packet,
    subscribe_packet,
)


class RecordingTransport:
    """In the place of a transport: keeps what is written, piece by piece."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_reading = True
        self.is_ended = False
        self.mark = 0
        self.unread = 0

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def set_write_buffer_limits(self, high: int) -> None:
        self.mark = high

    def get_write_buffer_size(self) -> int:
        return self.unread

    def get_extra_info(self, _name: str) -> None: ...

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def is_closing(self) -> bool:
        return self.is_ended

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_ended = True

    def abort(self) -> None:
        self.is_ended = True


class Scene:
    """A broker whose sockets are ours."""

    def __init__(self) -> None:
        options = {"broker.memberships": "none", "broker.allow_anonymous": True}
        settings = load_settings(options=options, environment={})
        self.service = BrokerService(replace(settings, redis=replace(settings.redis, url=None)))
        self._links: list[TcpLink] = []

    def open(self) -> tuple[TcpLink, RecordingTransport]:
        """A connection."""
        link, transport = TcpLink(self.service.core_driver), RecordingTransport()
        link.connection_made(transport)  # type: ignore[arg-type]
        self._links.append(link)
        return link, transport

    async def close(self) -> None:
        """Let all clients go, and the broker."""
        for link in self._links:
            link.connection_lost(None)
        await self.service.core_driver.stop()
        self.service.admission.logins.close()

    async def client(
        self, client_id: str, topic_filter: str = ""
    ) -> tuple[TcpLink, RecordingTransport]:
        """A client at work."""
        link, transport = self.open()
        link.data_received(connect_packet(client_id))
        await until(lambda: len(transport.written) == 1)
        assert transport.written[0][0] == CONNACK
        if topic_filter:
            link.data_received(subscribe_packet(topic_filter))
            await until(lambda: len(transport.written) == 2)
        transport.written.clear()
        return link, transport


async def until(is_done: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_done():  # noqa: ASYNC110 - turns of the loop are what is looked at
            await asyncio.sleep(0)


def run(scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def body() -> None:
        scene = Scene()
        await scenario(scene)
        await scene.close()

    asyncio.run(body())


def test_messages_of_many_senders_reach_a_receiver_in_one_write() -> None:
    async def scenario(scene: Scene) -> None:
        _, receiver = await scene.client("receiver", "t/#")
        senders = [await scene.client(f"s{number}") for number in range(5)]
        packets = [publish_packet("t/a", bytes([number])) for number in range(5)]
        for (link, _), packet in zip(senders, packets, strict=True):
            link.data_received(packet)
            assert not receiver.written
        await until(lambda: bool(receiver.written))
        assert receiver.written == [b"".join(packets)]

    run(scenario)


def test_a_senders_order_is_kept_whatever_the_sizes() -> None:
    async def scenario(scene: Scene) -> None:
        _, receiver = await scene.client("receiver", "#")
        link, _ = await scene.client("sender")
        sizes = (1, MANY_BYTES, 2, 3, 2 * MANY_BYTES, 4)
        packets = [publish_packet("t", bytes(size)) for size in sizes]
        for packet in packets:
            link.data_received(packet)
        # Cut between two reads, the first of them small and the second large.
        link.data_received(packets[4][:10])
        link.data_received(packets[4][10:])
        await until(lambda: sum(map(len, receiver.written)) >= len(b"".join(packets)))
        assert b"".join(receiver.written) == b"".join([*packets, packets[4]])

    run(scenario)


def test_what_a_client_sent_before_it_left_counts() -> None:
    async def scenario(scene: Scene) -> None:
        _, receiver = await scene.client("receiver", "#")
        link, _ = await scene.client("sender")
        link.data_received(publish_packet("t", b"last words"))
        link.connection_lost(None)
        await until(lambda: bool(receiver.written))
        assert receiver.written == [publish_packet("t", b"last words")]

    run(scenario)


def test_a_client_that_must_wait_is_not_read_from() -> None:
    async def scenario(scene: Scene) -> None:
        link, transport = scene.open()
        link.data_received(connect_packet("new"))
        await until(lambda: not transport.is_reading)
        await until(lambda: transport.is_reading)
        assert transport.written[0][0] == CONNACK

    run(scenario)


def test_a_fault_of_our_own_ends_one_connection_and_nobody_elses_messages(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_packets = Intake._take_packets

    def faulty(intake: Intake, connection: Connection, data: bytes, position: int = 0) -> None:
        if b"fault" in data:
            raise RuntimeError("a fault for the test")
        take_packets(intake, connection, data, position)

    async def scenario(scene: Scene) -> None:
        _, receiver = await scene.client("receiver", "#")
        (before, _), (bad, its_wire), (after, _) = [await scene.client(one) for one in "abc"]
        monkeypatch.setattr(Intake, "_take_packets", faulty)
        before.data_received(publish_packet("t", b"before"))
        bad.data_received(publish_packet("t/fault", b"lost"))
        after.data_received(publish_packet("t", b"after"))
        await until(lambda: its_wire.is_ended)
        received = b"".join(receiver.written)
        assert received == publish_packet("t", b"before") + publish_packet("t", b"after")
        assert its_wire.written[-1][0] == DISCONNECT

    with caplog.at_level(logging.ERROR):
        run(scenario)
    (record,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert "a fault for the test" in str(record.exc_info)


@pytest.mark.parametrize("reads_on", [True, False])
def test_a_client_that_does_not_read_its_answers_is_not_read_from(reads_on: bool) -> None:
    """Every answer was kept, however many: they are not messages, so no queue bounded them."""

    async def scenario(scene: Scene) -> None:
        link, transport = await scene.client("c")
        _, other = await scene.client("o")
        limit = scene.service.core_driver.limits.write_buffer_bytes
        if not reads_on:
            link.pause_writing()
        pings, written = b"\xc0\x00" * 10_000, 0
        for _ in range(2 * limit // len(pings) + 10):
            if not transport.is_reading and not link._connection.is_blocked:  # type: ignore[union-attr]
                break
            link.data_received(pings)
            await until(lambda: not link._connection.is_blocked)  # type: ignore[union-attr]
            await asyncio.sleep(0)
            written = sum(map(len, transport.written))
        assert transport.is_reading is reads_on
        assert other.is_reading
        if not reads_on:
            assert limit < written < limit + 5 * len(pings)
            assert (
                scene.service.core_driver.unread.stops,
                len(scene.service.core_driver.unread),
            ) == (1, 1)
            link.resume_writing()
            assert transport.is_reading
            assert (
                scene.service.core_driver.unread.stops,
                len(scene.service.core_driver.unread),
            ) == (1, 0)

    run(scenario)
