"""Runs the broker as a process: logs, Redis, signals, and one line when it is ready.

systemd is notified that the broker is ready, is alive, and stops (the protocol of sd_notify).
Without systemd, or with a unit of another type, nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import uvloop

from broker.shell.limits import read_limits
from broker.shell.operations.logs import ClientLineLimit, set_up_logs
from broker.shell.operations.settings_check import check_settings
from broker.shell.process import freeze_gc, tune_malloc
from broker.shell.service import BrokerService
from schemas.settings import NO_REDIS, Settings

if TYPE_CHECKING:
    from redis_link.connection.redis_choice import RedisChoice

log = logging.getLogger(__name__)


def run_broker(settings: Settings, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; ``say`` gets one line when clients can connect."""
    check_settings(settings)
    _, limits = read_limits(settings.broker.limits)
    lines = ClientLineLimit(limits.log_lines, limits.log_lines_of_address)
    set_up_logs(settings.broker.log_format, settings.broker.log_level, lines)
    tune_malloc()
    # Before the first process is started: its variables are not for others.
    manager = ServiceManager()
    if settings.redis.url == NO_REDIS:
        uvloop.run(
            _serve(replace(settings, redis=replace(settings.redis, url=None)), None, manager, say)
        )
        return
    # Imported late: loading the client of Redis takes 0.1 s.
    from redis_link.connection.redis_choice import redis_choice  # noqa: PLC0415

    with redis_choice(settings) as redis:
        chosen = replace(settings, redis=replace(settings.redis, url=redis.url))
        uvloop.run(_serve(chosen, redis, manager, say))


async def _serve(
    settings: Settings,
    redis: RedisChoice | None,
    manager: ServiceManager,
    say: Callable[[str], None],
) -> None:
    loop = asyncio.get_running_loop()
    stop_signal = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_signal.set)
    service = BrokerService(settings)
    starting = asyncio.create_task(service.start(), name="start")
    stopping = asyncio.create_task(stop_signal.wait(), name="signals")
    # A start may wait for the resolver; it is cancelled when the broker is to stop.
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        log.info("the broker stops before it has started")
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return
    bound = starting.result()
    # Objects that were imported and restored are never garbage.
    freeze_gc()
    loop.add_signal_handler(signal.SIGHUP, service.reload_files)
    beside = [asyncio.create_task(manager.show_life(), name="watchdog")]
    if redis is not None:
        beside.append(asyncio.create_task(redis.keep_running(), name="embedded Redis"))
    places = ", ".join(f"{address} ({name})" for name, address in bound)
    world = f"world version {service.world_version}" if service.world_version else "no world"
    say(f"spaps broker ready: {places}; {world}")
    manager.ready(f"{places}; {world}")
    await stop_signal.wait()
    log.info("the broker stops")
    manager.stopping()
    for task in beside:
        task.cancel()
    await service.stop()


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
