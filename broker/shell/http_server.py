"""A small HTTP server for the pages of operators and monitoring. GET only, no keep-alive.

A new visitor is never refused: the oldest connection is closed instead. So slow visitors, however
many, cannot keep others from a page.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

MAX_REQUEST_BYTES: Final = 8_192


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a path."""

    content: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK


Pages: TypeAlias = Mapping[str, Callable[[], Page]]
# The same for pages that depend on the query of the address, the text after its "?".
QueryPages: TypeAlias = Mapping[str, Callable[[str], Awaitable[Page]]]


# Whether a visitor from an address may read the pages, given its Authorization header.
Login: TypeAlias = Callable[[str, str | None], Awaitable[bool]]


class HttpServer:
    """Serves ``pages`` by their paths. The cost of a slow or malformed request is bounded.

    Without a ``login`` only names of this machine are served, unless ``any_name`` allows
    others: otherwise a web page whose own name resolves to this machine could read the answers.
    """

    def __init__(
        self,
        pages: Pages,
        limits: HttpLimits | None = None,
        login: Login | None = None,
        *,
        any_name: bool = False,
        query_pages: QueryPages | None = None,
    ) -> None:
        self._pages = pages
        self._query_pages = {} if query_pages is None else query_pages
        self._limits = HttpLimits() if limits is None else limits
        self._login = login
        self._any_name = any_name or login is not None
        self._server: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()
        self.visitors = Visitors(self._limits)

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port, which the system chose if 0 was given."""
        self._server = await asyncio.start_server(self._visit, host, port, limit=MAX_REQUEST_BYTES)
        chosen: int = self._server.sockets[0].getsockname()[1]
        return chosen

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        if self._server is not None:
            self._server.close()
            self.visitors.close_all()
            if self._visits:
                await asyncio.wait(self._visits)
            await self._server.wait_closed()

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = str((writer.get_extra_info("peername") or ("",))[0])
        number = self.visitors.enter(host, writer.transport.abort)
        visit = asyncio.current_task()
        if visit is not None:
            self._visits.add(visit)
            visit.add_done_callback(self._visits.discard)
        try:
            async with asyncio.timeout(self._limits.seconds):
                await self._answer(host, reader, writer)
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            # A visitor that does not read the answer would keep the connection open.
            writer.transport.abort()
            self.visitors.leave(host, number)

    async def _answer(
        self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            page = _error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            method = "GET"
        else:
            first, _, rest = head.decode("latin-1").partition("\r\n")
            headers = read_headers(rest)
            if self._login is not None and not await self._login(
                host, headers.get("authorization")
            ):
                method, page = "GET", _error(HTTPStatus.UNAUTHORIZED)
            elif not self._any_name and not is_local_name(headers.get("host", "")):
                method, page = "GET", _error(HTTPStatus.MISDIRECTED_REQUEST)
            else:
                method, page = await self._page_of(first)
        if writer.transport.is_closing():
            # The visitor left, or made room for another one, while the page was made.
            return
        writer.write(_response(page, with_content=method != "HEAD"))
        await writer.drain()

    async def _page_of(self, first_line: str) -> tuple[str, Page]:
        words = first_line.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "GET", _error(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        if method not in ("GET", "HEAD"):
            return method, _error(HTTPStatus.METHOD_NOT_ALLOWED)
        path, _, query = target.partition("?")
        make, make_of = self._pages.get(path), self._query_pages.get(path)
        try:
            if make_of is not None:
                return method, await make_of(query)
            return method, _error(HTTPStatus.NOT_FOUND) if make is None else make()
        except Exception:
            log.exception("a page could not be made", extra={"path": target})
            return method, _error(HTTPStatus.INTERNAL_SERVER_ERROR)


def read_headers(text: str) -> dict[str, str]:
    """Return the header fields of a request by their names in lower case."""
    fields = (line.partition(":") for line in text.split("\r\n") if line)
    return {name.strip().lower(): value.strip() for name, _, value in fields}


def is_local_name(host: str) -> bool:
    """Return whether a Host header is an address, localhost, or absent."""
    try:
        name = urlsplit(f"//{host}").hostname
        if name is not None and name != "localhost":
            ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


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
    if page.status is HTTPStatus.UNAUTHORIZED:
        lines.append('WWW-Authenticate: Basic realm="spaps", charset="UTF-8"')
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    return head + page.content if with_content else head


# Closes the visitor's connection.
Close: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits on visitors, in all and of one address, and on their time in seconds."""

    visitors: int = 64
    visitors_of_address: int = 16
    seconds: float = 5.0


class Visitors:
    """Visitors that are being served, by address, the oldest first."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._of_host: dict[str, dict[int, Close]] = {}
        self._number = 0
        self._count = 0
        # How many were closed, by the limit that was reached.
        self.displaced: Counter[str] = Counter({"address": 0, "total": 0})

    def enter(self, host: str, close: Close) -> int:
        """Add a visitor and return its number; closes another one if there are too many."""
        own = self._of_host.get(host, {})
        if len(own) >= self._limits.visitors_of_address:
            self._displace(host, "address")
        elif self._count >= self._limits.visitors:
            self._displace(max(self._of_host, key=lambda one: len(self._of_host[one])), "total")
        self._number += 1
        self._count += 1
        self._of_host.setdefault(host, {})[self._number] = close
        return self._number

    def leave(self, host: str, number: int) -> None:
        """Remove a visitor, if it was not closed before."""
        own = self._of_host.get(host, {})
        if own.pop(number, None) is not None:
            self._count -= 1
            if not own:
                del self._of_host[host]

    def close_all(self) -> None:
        """Close all connections."""
        for own in self._of_host.values():
            for close in own.values():
                close()

    def _displace(self, host: str, cause: str) -> None:
        number, close = next(iter(self._of_host[host].items()))
        self.leave(host, number)
        self.displaced[cause] += 1
        close()
