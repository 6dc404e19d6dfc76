"""The HTTP server on a real socket: its pages, and visitors that behave badly."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import urllib.request
from typing import Any
from urllib.error import HTTPError

import pytest
import uvloop

from broker.shell.http_server import HttpLimits, HttpServer, Page


def broken() -> Page:
    raise ZeroDivisionError


PAGES = {
    "/health": lambda: Page(json.dumps({"status": "ok"}).encode(), "application/json"),
    "/broken": broken,
}


def visit(*requests: bytes, **options: Any) -> list[bytes]:
    """What a server with PAGES answers to each of these bytes, each on its own connection."""

    async def scenario() -> list[bytes]:
        server = HttpServer(PAGES, **options)
        port = await server.start("127.0.0.1", 0)
        answers = []
        for request in requests:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            answers.append(await reader.read())
            writer.close()
        await server.stop()
        return answers

    return asyncio.run(scenario())


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_pages_as_a_real_client_sees_them() -> None:
    async def scenario() -> None:
        server = HttpServer(PAGES)
        port = await server.start("127.0.0.1", 0)

        def fetch(path: str) -> tuple[int, str, bytes]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as page:
                    return page.status, page.headers["Content-Type"], page.read()
            except HTTPError as error:
                return error.code, "", error.read()

        assert await asyncio.to_thread(fetch, "/health?pretty") == (
            200, "application/json", b'{"status": "ok"}',
        )  # fmt: skip
        assert (await asyncio.to_thread(fetch, "/secret"))[0] == 404
        assert (await asyncio.to_thread(fetch, "/broken"))[0] == 500
        await server.stop()

    asyncio.run(scenario())


def test_head_has_no_content_and_other_methods_are_refused() -> None:
    head, post = visit(b"HEAD /health HTTP/1.1\r\n\r\n", b"POST /health HTTP/1.1\r\n\r\n")
    assert status_of(head) == 200
    assert head.endswith(b"\r\n\r\n")
    assert b"Content-Length: 16\r\n" in head
    assert status_of(post) == 405


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET /health\r\n\r\n", 400),
        (b"\xff\xfe /health HTTP/1.1\r\n\r\n", 405),
        (b"GET /health HTTP/2.0\r\n\r\n", 400),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", 431),
    ],
)
def test_odd_requests_are_answered(request_bytes: bytes, status: int) -> None:
    odd, after = visit(request_bytes, b"GET /health HTTP/1.1\r\n\r\n")
    assert status_of(odd) == status
    assert status_of(after) == 200


def test_a_visitor_who_says_nothing_is_shown_out() -> None:
    assert visit(b"GET /health HT", limits=HttpLimits(seconds=0.05)) == [b""]


async def slow_visitors(port: int, count: int, host: str = "127.0.0.1") -> list[Any]:
    """Visitors who have not said all that they want to say, in their order."""
    links = []
    for _ in range(count):
        links.append(await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0)))
        links[-1][1].write(b"GET")
        await asyncio.sleep(0.01)
    return links


async def health(port: int, host: str = "127.0.0.1") -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))
    writer.write(b"GET /health HTTP/1.1\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return status_of(answer)


@pytest.mark.parametrize(("slow", "displaced"), [(2, 0), (3, 1), (4, 2)])
def test_slow_visitors_of_one_address_make_room(slow: int, displaced: int) -> None:
    async def scenario() -> None:
        server = HttpServer(PAGES, HttpLimits(visitors=10, visitors_of_address=3))
        port = await server.start("127.0.0.1", 0)
        links = await slow_visitors(port, slow)
        assert await health(port) == 200
        assert server.visitors.displaced == {"address": displaced, "total": 0}
        # The oldest went, the others are still served.
        for number, (reader, writer) in enumerate(links):
            writer.write(b" /health HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                answer = await reader.read()
                assert (answer != b"") is (number >= displaced)
            writer.close()
        await server.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize(("slow", "displaced"), [(3, 0), (4, 1)])
def test_slow_visitors_of_many_addresses_make_room(slow: int, displaced: int) -> None:
    async def scenario() -> None:
        server = HttpServer(PAGES, HttpLimits(visitors=4, visitors_of_address=2))
        port = await server.start("127.0.0.1", 0)
        links = await slow_visitors(port, 2, "127.0.0.2")
        links += await slow_visitors(port, slow - 2, "127.0.0.3")
        assert await health(port) == 200
        assert server.visitors.displaced == {"address": 0, "total": displaced}
        for _, writer in links:
            writer.close()
        await server.stop()

    asyncio.run(scenario())


def test_a_visitor_who_is_closed_while_its_page_is_made(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        asked, made = asyncio.Event(), asyncio.Event()

        async def slow(_query: str) -> Page:
            asked.set()
            await made.wait()
            return Page(b"late")

        limits = HttpLimits(visitors=10, visitors_of_address=1)
        server = HttpServer(PAGES, limits, query_pages={"/slow": slow})
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /slow HTTP/1.1\r\n\r\n")
        await asked.wait()
        assert await health(port) == 200
        made.set()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        await server.stop()

    # The loop of the broker, whose closed transports raise when they are written to.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
    assert not caplog.records


def test_a_visitor_who_does_not_read_the_answer_is_shown_out() -> None:
    async def scenario() -> None:
        visit: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def large() -> Page:
            visit.set_result(asyncio.current_task())
            return Page(b"x" * 50_000_000)

        server = HttpServer({"/health": large}, HttpLimits(seconds=0.2))
        port = await server.start("127.0.0.1", 0)
        with socket.create_connection(("127.0.0.1", port)) as link:
            link.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(30):
                await asyncio.shield(await visit)
            with contextlib.suppress(ConnectionError):
                while link.recv(1_000_000):
                    pass
        await server.stop()

    asyncio.run(scenario())


def test_visitors_are_sent_away_when_the_server_stops(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        server = HttpServer(PAGES, HttpLimits(seconds=120.0))
        port = await server.start("127.0.0.1", 0)
        links = await slow_visitors(port, 3)
        async with asyncio.timeout(20):
            await server.stop()
            for reader, writer in links:
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
                writer.close()

    asyncio.run(scenario())
    assert not caplog.records


class OneUser:
    """Lets in who says the word."""

    async def allows(self, host: str, authorization: str | None) -> bool:
        assert host == "127.0.0.1"
        return authorization == "Basic word"


def test_pages_with_a_login() -> None:
    good, bad, none = visit(
        b"GET /health HTTP/1.1\r\nAUTHORIZATION:  Basic word\r\n\r\n",
        b"GET /health HTTP/1.1\r\nAuthorization: Basic other\r\n\r\n",
        b"GET /secret HTTP/1.1\r\n\r\n",
        login=OneUser().allows,
    )
    assert [status_of(one) for one in (good, bad, none)] == [200, 401, 401]
    assert b"WWW-Authenticate: Basic" in none


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:9883", 200), ("127.0.0.1", 200), ("[::1]:9883", 200), ("", 200),
        ("evil.example", 421), ("evil.example:9883", 421), ("localhost.evil.example", 421),
        ("[", 421),
    ],
)  # fmt: skip
def test_a_name_that_was_made_to_point_here_gets_no_page(host: str, status: int) -> None:
    (answer,) = visit(f"GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert status_of(answer) == status
