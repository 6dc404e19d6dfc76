"""What the broker tells systemd: ready, signs of life from the loop that serves, and the end."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.scenes.broker.open_broker import OPEN, is_alive
from tests.servers.running_broker import PATIENCE, running_broker, until


class Manager:
    """Stands for systemd: the socket that a service writes to."""

    def __init__(self, path: Path) -> None:
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.link.bind(str(path))
        self.link.settimeout(PATIENCE)

    def next(self) -> list[str]:
        """The lines of the next message."""
        return self.link.recv(4_096).decode().splitlines()

    def read_until(self, line: str) -> list[str]:
        """All lines up to the message that has this one."""
        read: list[str] = []
        while line not in read:
            read += self.next()
        return read

    def forget(self) -> None:
        """Drop what has come so far."""
        self.link.settimeout(0)
        try:
            while True:
                self.link.recv(4_096)
        except BlockingIOError:
            self.link.settimeout(PATIENCE)


@contextmanager
def manager(folder: Path) -> Iterator[tuple[Manager, dict[str, str]]]:
    """A service manager, and the environment that it gives to the service."""
    path = folder / "notify"
    one = Manager(path)
    try:
        yield one, {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "300000"}
    finally:
        one.link.close()


def test_ready_alive_and_stopping(tmp_path: Path) -> None:
    with (
        manager(tmp_path) as (systemd, environment),
        running_broker(tmp_path, *OPEN, environment=environment) as broker,
    ):
        said = systemd.read_until("READY=1")
        (status,) = [line for line in said if line.startswith("STATUS=")]
        assert f"127.0.0.1:{broker.port} (default)" in status
        for _ in range(3):
            systemd.read_until("WATCHDOG=1")
        # An event loop that stands still shows no life.
        os.kill(broker.process.pid, signal.SIGSTOP)
        state = Path(f"/proc/{broker.process.pid}/stat")
        until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "a stopped broker")
        systemd.forget()
        systemd.link.settimeout(1)
        with pytest.raises(TimeoutError):
            systemd.next()
        os.kill(broker.process.pid, signal.SIGCONT)
        systemd.link.settimeout(PATIENCE)
        systemd.read_until("WATCHDOG=1")
        assert is_alive(broker)
        broker.stop()
        systemd.read_until("STOPPING=1")


def test_processes_of_the_broker_do_not_speak_for_it(tmp_path: Path, city: Path) -> None:
    arguments = ("--world", str(city), "--allow-anonymous")
    with (
        manager(tmp_path) as (_, environment),
        running_broker(tmp_path, *arguments, environment=environment) as broker,
    ):
        children = Path(f"/proc/{broker.process.pid}/task/{broker.process.pid}/children")
        processes = children.read_text().split()
        assert processes, "the resolver is a process of its own"
        for process in processes:
            assert b"NOTIFY_SOCKET" not in Path(f"/proc/{process}/environ").read_bytes()


def test_a_socket_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "gone"), "WATCHDOG_USEC": "no number"}
    with running_broker(tmp_path, *OPEN, environment=environment) as broker:
        assert is_alive(broker)
        assert "the service manager cannot be told: " in broker.log
