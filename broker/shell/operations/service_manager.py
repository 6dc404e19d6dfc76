"""Tells systemd that the broker is ready, is alive, and stops (the protocol of sd_notify).

Without systemd, or with a unit of another type, nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import MutableMapping
from typing import Final

log = logging.getLogger(__name__)

SOCKET: Final = "NOTIFY_SOCKET"
WATCHDOG_MICROSECONDS: Final = "WATCHDOG_USEC"
WATCHDOG_PROCESS: Final = "WATCHDOG_PID"
# Signs of life in the time after which systemd takes the broker for dead.
SIGNS: Final = 3


class ServiceManager:
    """The service manager that started this process, if there is one.

    Its variables are taken out of the environment: they are not for processes of the broker.
    """

    def __init__(self, environment: MutableMapping[str, str] | None = None) -> None:
        found = os.environ if environment is None else environment
        path = found.pop(SOCKET, "")
        # "@" stands for the zero byte of an abstract socket.
        self._address = f"\0{path[1:]}" if path.startswith("@") else path
        process = found.pop(WATCHDOG_PROCESS, str(os.getpid()))
        microseconds = found.pop(WATCHDOG_MICROSECONDS, "")
        self._watchdog_seconds = 0.0
        if self._address and microseconds.isdecimal() and process == str(os.getpid()):
            self._watchdog_seconds = int(microseconds) / 1e6

    def ready(self, status: str) -> None:
        """Say that clients can connect; ``status`` is for `systemctl status`."""
        self._send(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """Say that the broker stops."""
        self._send("STOPPING=1\nSTATUS=stores its state and closes")

    async def show_life(self) -> None:
        """Send signs of life until cancelled.

        It runs on the event loop that serves clients: when that stands still for the time of the
        watchdog, systemd starts the broker again.
        """
        while self._watchdog_seconds:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self._watchdog_seconds / SIGNS)

    def _send(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as link:
                link.sendto(state.encode(), socket.MSG_DONTWAIT, self._address)
        except OSError as error:
            log.warning("the service manager cannot be told: %s", error)
