"""The control socket: an operator on this machine asks and changes the running broker.

It is a Unix socket that only the user who runs the broker can open. A request is one line of JSON;
the answer is one line for each row and a last line with the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from broker.core.sessions.session import NEVER_EXPIRES, Session
from schemas.errors import SettingsError, SpapsError

if TYPE_CHECKING:
    from broker.core.broker_core import Core

log = logging.getLogger(__name__)

REQUEST_BYTES: Final = 65_536 * 4
REQUEST_SECONDS: Final = 5.0
# Rows that are written per turn of the event loop.
ROWS_AT_ONCE: Final = 200


# The rows of an answer, the last one with the key "done"; SpapsError says why there is none.
Rows: TypeAlias = AsyncGenerator[dict[str, Any], None]
Command: TypeAlias = Callable[[dict[str, Any]], Rows]


class ControlSocket:
    """Answers ``spaps sessions`` and other commands.

    ``changed`` is called after the core was changed. ``commands`` are by the names in requests.
    """

    def __init__(
        self,
        path: Path | None,
        core: Core,
        changed: Callable[[], None],
        commands: Mapping[str, Command],
    ) -> None:
        self._path = path
        self._core = core
        self._changed = changed
        self._commands = {"list": self._list, "end": self._end, **commands}
        self._visits: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._inode = 0

    async def start(self) -> None:
        """Listen, if there is a path. Without the socket the broker only logs a warning."""
        if self._path is None:
            return
        try:
            listener = private_socket(self._path)
            self._inode = self._path.stat().st_ino
        except (OSError, SettingsError) as error:
            reason = getattr(error, "strerror", None) or error
            log.warning("this broker has no control socket: %s: %s", self._path, reason)
            return
        self._server = await asyncio.start_unix_server(
            self._serve, sock=listener, limit=REQUEST_BYTES
        )

    async def stop(self) -> None:
        """Stop listening and remove the socket, unless it belongs to another broker by now."""
        if self._server is None or self._path is None:
            return
        self._server.close()
        for visit in self._visits:
            visit.cancel()
        with contextlib.suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = asyncio.current_task()
        if visit is not None:
            self._visits.add(visit)
            visit.add_done_callback(self._visits.discard)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                line = await reader.readline()
            async with contextlib.aclosing(self._answers(line)) as answers:
                await _write(answers, writer)
        except (TimeoutError, OSError, ValueError) as error:
            log.info("a request on the control socket failed: %s", error)
        except asyncio.CancelledError:
            # The broker stops. asyncio would log the end of this task as an error.
            return
        finally:
            writer.close()

    async def _answers(self, line: bytes) -> Rows:
        try:
            request = json.loads(line)
            command = request.pop("command")
        except (ValueError, TypeError, KeyError, AttributeError):
            yield {"error": "the request is not understood"}
            return
        run = self._commands.get(command) if isinstance(command, str) else None
        if run is None:
            yield {"error": f"there is no command {command!r}"}
            return
        try:
            async with contextlib.aclosing(run(request)) as rows:
                async for row in rows:
                    yield row
        except SpapsError as error:
            yield {"error": str(error)}

    async def _list(self, _request: dict[str, Any]) -> Rows:
        sessions = list(self._core.sessions)
        for session in sessions:
            yield session_row(session)
        yield {"done": len(sessions)}

    async def _end(self, request: dict[str, Any]) -> Rows:
        yield self._ended(str(request.get("client")), request)

    def _ended(self, client_id: str, request: dict[str, Any]) -> dict[str, Any]:
        """End the session of a client id, only of ``user`` when the request has that key."""
        found = self._core.sessions.of_client_id(client_id)
        if "user" in request:
            found = [one for one in found if one.identity.user_name == request["user"]]
        if not found:
            return {"error": f"there is no session of client id {client_id!r}"}
        if len(found) > 1:
            users = ", ".join(sorted(str(one.identity.user_name) for one in found))
            return {"error": f"several users have client id {client_id!r}: {users}; give --user"}
        log.info(
            "session ended by an operator",
            extra={"client": client_id, "user": found[0].identity.user_name},
        )
        self._core.end_session(found[0])
        self._changed()
        return {"done": 1}


async def _write(answers: AsyncIterator[dict[str, Any]], writer: asyncio.StreamWriter) -> None:
    """Write each row as a line, as fast as the client reads them."""
    number = 0
    async for answer in answers:
        writer.write(json.dumps(answer).encode() + b"\n")
        number += 1
        if number % ROWS_AT_ONCE == 0:
            # A fast reader would keep this loop from yielding.
            await asyncio.sleep(0)
        await writer.drain()


def private_socket(path: Path) -> socket.socket:
    """Return a listening Unix socket that only this user can open.

    It is bound in a private folder and then moved, so it is never open to others. SettingsError
    when another process answers at the path.
    """
    if path.exists():
        with socket.socket(socket.AF_UNIX) as visitor, contextlib.suppress(OSError):
            visitor.connect(str(path))
            raise SettingsError("another broker listens there; set broker.control")
    path.parent.mkdir(parents=True, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".control-") as folder:
            bound = Path(folder) / "socket"
            listener.bind(str(bound))
            bound.chmod(0o600)
            bound.replace(path)
        listener.listen()
        listener.settimeout(0)
    except BaseException:
        listener.close()
        raise
    return listener


def session_row(session: Session) -> dict[str, Any]:
    """Return the row of one session in ``spaps sessions list``; times are in UTC."""
    connection = session.connection
    if connection is not None:
        since, address = connection.connected_at, connection.address
    else:
        # The expiry interval starts when the client disconnects.
        left = session.expires_at
        since = None if left is None else left - session.expiry_interval
        address = session.host
    ends = session.expires_at if session.expiry_interval != NEVER_EXPIRES else None
    return {
        "client": session.client_id,
        "user": session.identity.user_name,
        "address": address,
        "state": "away" if connection is None else "connected",
        "since": _time(since),
        "expires": _time(ends),
        "expirySeconds": session.expiry_interval,
        "subscriptions": len(session.subscriptions),
        "queued": len(session.outgoing.queue) + len(session.outgoing.unacknowledged),
        "queuedBytes": session.outgoing.bytes,
    }


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
