"""The HTTP server on a real socket: its pages, and visitors that behave badly."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from urllib.error import HTTPError

import pytest

from broker import http_pages
from broker.http_pages import HttpServer, Page


def broken() -> Page:
    raise ZeroDivisionError


PAGES = {
    "/health": lambda: Page(json.dumps({"status": "ok"}).encode(), "application/json"),
    "/broken": broken,
}


def visit(*requests: bytes) -> list[bytes]:
    """What a server with PAGES answers to each of these bytes, each on its own connection."""

    async def scenario() -> list[bytes]:
        server = HttpServer(PAGES)
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


def test_a_visitor_who_says_nothing_is_shown_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pages, "REQUEST_SECONDS", 0.05)
    assert visit(b"GET /health HT") == [b""]


def test_only_so_many_visitors_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pages, "MAX_CONNECTIONS", 1)

    async def scenario() -> None:
        server = HttpServer(PAGES)
        port = await server.start("127.0.0.1", 0)
        _, first = await asyncio.open_connection("127.0.0.1", port)
        first.write(b"GET")
        await asyncio.sleep(0.05)
        reader, second = await asyncio.open_connection("127.0.0.1", port)
        second.write(b"GET /health HTTP/1.1\r\n\r\n")
        # The first one holds the only place.
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        first.close()
        second.close()
        await server.stop()

    asyncio.run(scenario())
