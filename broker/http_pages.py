"""A small HTTP server for pages that operators and monitoring read. GET alone, no keep-alive."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias

log = logging.getLogger(__name__)

MAX_REQUEST_BYTES: Final = 8_192
REQUEST_SECONDS: Final = 5.0
MAX_CONNECTIONS: Final = 64


@dataclass(frozen=True, slots=True)
class Page:
    """What a path shows."""

    content: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK


Pages: TypeAlias = Mapping[str, Callable[[], Page]]


class HttpServer:
    """Shows ``pages`` by their paths. A slow or odd visitor costs little and for a short time."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._visitors = 0

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, which the system has chosen if 0 was given."""
        self._server = await asyncio.start_server(self._visit, host, port, limit=MAX_REQUEST_BYTES)
        chosen: int = self._server.sockets[0].getsockname()[1]
        return chosen

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._visitors += 1
        try:
            if self._visitors <= MAX_CONNECTIONS:
                async with asyncio.timeout(REQUEST_SECONDS):
                    await self._answer(reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._visitors -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            page = _error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            method = "GET"
        else:
            method, page = self._page_of(head)
        writer.write(_response(page, with_content=method != "HEAD"))
        await writer.drain()

    def _page_of(self, head: bytes) -> tuple[str, Page]:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "GET", _error(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        if method not in ("GET", "HEAD"):
            return method, _error(HTTPStatus.METHOD_NOT_ALLOWED)
        make = self._pages.get(target.partition("?")[0])
        if make is None:
            return method, _error(HTTPStatus.NOT_FOUND)
        try:
            return method, make()
        except Exception:
            log.exception("a page could not be made", extra={"path": target})
            return method, _error(HTTPStatus.INTERNAL_SERVER_ERROR)


def _error(status: HTTPStatus) -> Page:
    return Page(f"{status.value} {status.phrase}\n".encode(), status=status)


def _response(page: Page, *, with_content: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.content)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append("Allow: GET, HEAD")
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    return head + page.content if with_content else head
