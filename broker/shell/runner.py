"""Runs the broker as a process: logs, Redis, signals, and one line when it is ready.

Logs are text lines for people, or JSON lines for machines. They never contain a payload or a
password: log calls pass only names, numbers and reasons.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import uvloop

from broker.shell.process import freeze_gc, tune_malloc
from broker.shell.service import BrokerService
from schemas.errors import SettingsError, WorldError
from schemas.settings import NO_REDIS, Settings
from schemas.world_places import world_folder

if TYPE_CHECKING:
    from redis_link.connection.redis_choice import RedisChoice

log = logging.getLogger(__name__)


def run_broker(settings: Settings, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; ``say`` gets one line when clients can connect."""
    set_up_logs(settings.broker.log_format, settings.broker.log_level)
    tune_malloc()
    _require_world(settings)
    if settings.redis.url == NO_REDIS:
        uvloop.run(_serve(replace(settings, redis=replace(settings.redis, url=None)), None, say))
        return
    # Imported late: loading the client of Redis takes 0.1 s.
    from redis_link.connection.redis_choice import redis_choice  # noqa: PLC0415

    with redis_choice(settings) as redis:
        chosen = replace(settings, redis=replace(settings.redis, url=redis.url))
        uvloop.run(_serve(chosen, redis, say))


def _require_world(settings: Settings) -> None:
    """Raise when the world does not exist, before anything is started or created."""
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


async def _serve(settings: Settings, redis: RedisChoice | None, say: Callable[[str], None]) -> None:
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
    watch = None
    if redis is not None:
        watch = asyncio.create_task(redis.keep_running(), name="embedded Redis")
    places = ", ".join(f"{address} ({name})" for name, address in bound)
    world = f"world version {service.world_version}" if service.world_version else "no world"
    say(f"spaps broker ready: {places}; {world}")
    await stop_signal.wait()
    log.info("the broker stops")
    if watch is not None:
        watch.cancel()
    await service.stop()


FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")
# Attributes of every log record; others were given by ``extra`` and are shown as fields.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextLines(logging.Formatter):
    """Formats a record as time, level, message, then the fields as name=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - logging's shape
        """Return the time in UTC, to the millisecond."""
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line without line breaks, so that client data cannot forge a log line."""
        fields = "".join(f" {name}={value!r}" for name, value in fields_of(record).items())
        return _one_line(super().formatMessage(record) + fields)


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time in seconds since 1970, level, logger, message, and the fields."""
        content: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields given by ``extra``."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def set_up_logs(form: str, level: str) -> None:
    """Log to stderr; amqtt and the WebSocket library log only warnings or errors."""
    if form not in FORMATS:
        raise SettingsError(f"broker.log_format must be {' or '.join(FORMATS)}, not {form!r}")
    if level not in LEVELS:
        raise SettingsError(f"broker.log_level must be one of {', '.join(LEVELS)}, not {level!r}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for library in ("amqtt", "websockets", "transitions", "asyncio"):
        logging.getLogger(library).setLevel(logging.WARNING)
    # Its errors reach us as exceptions, and are logged once.
    logging.getLogger("amqtt.broker").setLevel(logging.CRITICAL)


def _one_line(text: str) -> str:
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )
