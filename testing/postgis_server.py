"""A PostGIS server of the benchmark's own, in a temporary folder and on a free loopback port."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from system_packages import missing_line

# A fair peer: the whole table and its index in memory, no time spent on durability or JIT.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "1GB",
    "effective_cache_size": "4GB",
    "work_mem": "64MB",
    "maintenance_work_mem": "512MB",
    "random_page_cost": "1.1",
    "jit": "off",
    # Parallel plans cost milliseconds to start, for queries that take few of them.
    "max_parallel_workers_per_gather": "0",
    "fsync": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
}
START_SECONDS = 60
STOP_SECONDS = 30


class PostgisMissingError(Exception):
    """The programs or the extension are not installed; the text says how to get them."""


def programs_folder() -> Path:
    """Return the folder of the newest PostgreSQL that has PostGIS."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_major, reverse=True)
    for folder in folders:
        library = folder.with_name("lib") / "postgis-3.so"
        if (folder / "initdb").is_file() and library.is_file():
            return folder
    raise PostgisMissingError(missing_line("postgis-3.so"))


def _major(folder: Path) -> int:
    name = folder.parent.name
    return int(name) if name.isdigit() else 0


@contextmanager
def postgis_server(cores: set[int] | None = None) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection to an empty database with PostGIS; the server ends with the block.

    ``cores`` pins the server, so that it and its client do not fight for one.
    """
    programs = programs_folder()
    folder = Path(tempfile.mkdtemp(prefix="spaps-postgis-"))
    try:
        owner = _unprivileged()
        if owner is not None:
            os.chown(folder, owner["user"], owner["group"])
        data = folder / "data"
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "spaps", "-A", "trust", "-E", "UTF8"],
            check=True,
            capture_output=True,
            cwd=folder,
            **(owner or {}),
        )
        with _running(programs, data, owner, cores) as port:
            dsn = f"host=127.0.0.1 port={port} user=spaps dbname=postgres"
            with _connected(dsn) as connection:
                connection.execute("CREATE EXTENSION postgis")
                yield connection
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> dict[str, Any] | None:
    """Return the user to run as when started by root, whom PostgreSQL refuses."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise PostgisMissingError("PostgreSQL does not run as root and there is no other user here")


@contextmanager
def _running(
    programs: Path, data: Path, owner: dict[str, Any] | None, cores: set[int] | None
) -> Iterator[int]:
    port = _free_port()
    options = [f"--{name}={value}" for name, value in {**SETTINGS, "port": port}.items()]
    with (data.parent / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, *options],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=data.parent,
            **(owner or {}),
        )
    try:
        if cores is not None:
            # Its sessions are children and inherit this.
            os.sched_setaffinity(server.pid, cores)
        yield port
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _connected(dsn: str) -> psycopg.Connection[Any]:
    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            return psycopg.connect(dsn, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
