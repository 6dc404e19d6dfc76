"""The broker as a process: its Redis, its signals, and one line when it is ready."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import replace

import uvloop

from broker.heap import keep_heap_tight, settle
from broker.shell.logs import set_up_logs
from broker.shell.redis_choice import RedisBehind, redis_behind
from broker.shell.service import BrokerService
from schemas.settings import Settings

log = logging.getLogger(__name__)


def run_broker(settings: Settings, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; ``say`` gets one line when clients can connect."""
    set_up_logs(settings.broker.log_format, settings.broker.log_level)
    keep_heap_tight()
    with redis_behind(settings.redis) as redis:
        chosen = replace(settings, redis=replace(settings.redis, url=redis.url))
        uvloop.run(_serve(chosen, redis, say))


async def _serve(settings: Settings, redis: RedisBehind, say: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    told_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    service = BrokerService(settings)
    bound = await service.start()
    # What was imported and restored stays.
    settle()
    loop.add_signal_handler(signal.SIGHUP, service.reload_access)
    watch = asyncio.create_task(redis.keep_running(), name="embedded Redis")
    places = ", ".join(f"{address} ({name})" for name, address in bound)
    world = f"world version {service.world_version}" if service.world_version else "no world"
    say(f"spaps broker ready: {places}; {world}")
    await told_to_stop.wait()
    log.info("the broker stops")
    watch.cancel()
    await service.stop()
