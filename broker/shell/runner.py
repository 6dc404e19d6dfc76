"""The broker as a process: its Redis, its signals, and one line when it is ready."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import replace

import uvloop

from broker.filter.process_memory import freeze_gc, tune_malloc
from broker.shell.logs import set_up_logs
from broker.shell.service import BrokerService
from redis_link.connection.redis_choice import RedisChoice, redis_choice
from schemas.errors import WorldError
from schemas.settings import Settings
from schemas.world_places import world_folder

log = logging.getLogger(__name__)


def run_broker(settings: Settings, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; ``say`` gets one line when clients can connect."""
    set_up_logs(settings.broker.log_format, settings.broker.log_level)
    tune_malloc()
    _require_world(settings)
    with redis_choice(settings) as redis:
        chosen = replace(settings, redis=replace(settings.redis, url=redis.url))
        uvloop.run(_serve(chosen, redis, say))


def _require_world(settings: Settings) -> None:
    """Refuse a world that is not there before anything is started or made in its place."""
    folder = world_folder(settings.world.dir)
    if settings.broker.memberships == "none" or folder is None:
        return
    try:
        os.scandir(folder).close()
    except FileNotFoundError:
        missing = f"no world at {settings.world.dir}: import one with 'spaps import'"
        raise WorldError(missing) from None
    except NotADirectoryError:
        raise WorldError(f"{settings.world.dir}: is a file, not the folder of a world") from None
    except OSError as error:
        raise WorldError(f"{settings.world.dir}: {error.strerror or error}") from error


async def _serve(settings: Settings, redis: RedisChoice, say: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    told_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    service = BrokerService(settings)
    starting = asyncio.create_task(service.start(), name="start")
    stopping = asyncio.create_task(told_to_stop.wait(), name="signals")
    # A start may wait for the resolver: it is given up when the broker is to stop.
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        log.info("the broker stops before it has started")
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return
    bound = starting.result()
    # What was imported and restored stays.
    freeze_gc()
    loop.add_signal_handler(signal.SIGHUP, service.reload_files)
    watch = asyncio.create_task(redis.keep_running(), name="embedded Redis")
    places = ", ".join(f"{address} ({name})" for name, address in bound)
    world = f"world version {service.world_version}" if service.world_version else "no world"
    say(f"spaps broker ready: {places}; {world}")
    await told_to_stop.wait()
    log.info("the broker stops")
    watch.cancel()
    await service.stop()
