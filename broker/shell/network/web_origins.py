"""Web origins: which pages of browsers may open a WebSocket."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import urlsplit

from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from broker.access.addresses import Origin
from broker.shell.http_server import is_local_name
from schemas.errors import Mistakes, SettingsError

log = logging.getLogger(__name__)

OriginCheck: TypeAlias = Callable[[ServerConnection, Request], Response | None]


class WebOrigins:
    """Web origins: pages of the same host may connect, and those in ``allowed`` (``*``: all)."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        mistakes = Mistakes()
        origins = set()
        for one in allowed:
            with mistakes.noted():
                origins.add(_origin(one))
        mistakes.check()
        self._allowed = frozenset(origins)
        self.refused = 0

    def check(self, *, is_public: bool) -> OriginCheck:
        """Return the check of a listener; ``is_public``: other machines can reach it."""

        def check(connection: ServerConnection, request: Request) -> Response | None:
            origins = request.headers.get_all("Origin")
            host = ", ".join(request.headers.get_all("Host"))
            if all(self.allows(one, host, is_public=is_public) for one in origins):
                return None
            self.refused += 1
            peer = connection.remote_address or (None, None)
            extra = {"origin": ", ".join(origins), "from": str(Origin(peer[0], peer[1]))}
            log.info("WebSocket refused: a page of another origin", extra=extra)
            return connection.respond(
                HTTPStatus.FORBIDDEN, "this origin is not in broker.websocket_origins\n"
            )

        return check

    def allows(self, origin: str, host: str, *, is_public: bool) -> bool:
        """Return whether a page of the origin may connect to the host in its request.

        On this machine the host must be an address or localhost: the owner of any other name could
        have made it resolve to this machine.
        """
        if "*" in self._allowed or origin.rstrip("/").lower() in self._allowed:
            return True
        if not is_public and not is_local_name(host):
            return False
        try:
            page, asked = urlsplit(origin).hostname, urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return page is not None and page == asked


def _origin(text: str) -> str:
    """Return an origin of the settings as browsers write it; an error if it is not valid."""
    origin = text.rstrip("/").lower()
    try:
        parts = urlsplit(origin)
        is_origin = bool(parts.scheme and parts.hostname) and parts.port != 0
    except ValueError:
        is_origin = False
    else:
        is_origin = is_origin and origin == f"{parts.scheme}://{parts.netloc}"
    if origin in ("*", "null") or (is_origin and "@" not in origin):
        return origin
    raise SettingsError(
        f"broker.websocket_origins: {text!r} is no origin: write it as https://map.example or "
        "http://localhost:3000, or * for all"
    )
