"""Checks all settings of a broker, with the functions by which it starts, and finds all mistakes.

The broker checks at its start, `spaps config check` at any time. Nothing is opened or created.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from broker.codec.gateway_rules import GatewayRules
from broker.ports import check_broker_name, memberships_of_mode
from broker.shell.admission import check_access_files, check_pages
from broker.shell.limits import read_limits
from broker.shell.network.certificates import server_contexts
from broker.shell.network.listeners import amqtt_config, check_openness, listener_addresses
from broker.shell.network.web_origins import WebOrigins
from broker.shell.operations.logs import check_log_settings
from broker.shell.operator_interfaces import http_address
from redis_link.connection.url import parse_redis_url
from schemas.errors import Mistakes, SettingsError
from schemas.settings import NO_REDIS, Settings
from schemas.world_places import world_folder

Step: TypeAlias = Callable[[], object]


def check_settings(settings: Settings) -> None:
    """Raise SettingsError with every mistake in the settings and in the files that they name."""
    mistakes = Mistakes()
    for step in _steps(settings):
        with mistakes.noted():
            step()
    # Two steps may meet the same mistake.
    Mistakes(dict.fromkeys(mistakes)).check()


def _steps(settings: Settings) -> Iterator[Step]:
    broker = settings.broker
    yield lambda: check_log_settings(broker.log_format, broker.log_level)
    yield lambda: _check_world(settings)
    yield lambda: memberships_of_mode(broker.memberships, has_redis=settings.redis.url != NO_REDIS)
    yield lambda: check_broker_name(broker.name)
    if settings.redis.url not in (None, NO_REDIS):
        yield lambda: parse_redis_url(settings.redis.url or "")
    yield lambda: read_limits(broker.limits)
    yield lambda: listener_addresses(broker)
    yield lambda: amqtt_config(broker)
    yield lambda: check_openness(broker, allows_anonymous=broker.allow_anonymous)
    yield lambda: check_pages(broker, http_address(broker.http))
    yield lambda: check_access_files(broker)
    yield lambda: server_contexts(_with_certificates(broker.listeners))
    yield lambda: WebOrigins(broker.websocket_origins)
    yield lambda: GatewayRules(broker.gateway, has_world=broker.memberships != "none")


def _with_certificates(listeners: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the tables of listeners whose files are there; another step finds missing ones."""
    found = {}
    for name, table in listeners.items():
        if isinstance(table, Mapping) and table.get("ssl"):
            files = [table.get(key) for key in ("certfile", "keyfile")]
            files += [table[key] for key in ("cafile", "capath") if table.get(key)]
            if all(isinstance(file, str) and Path(file).exists() for file in files):
                found[name] = table
    return found


def _check_world(settings: Settings) -> None:
    """Raise SettingsError when the world does not exist, before anything is started or created."""
    folder = world_folder(settings.world.dir)
    if settings.broker.memberships == "none" or folder is None:
        return
    try:
        os.scandir(folder).close()
    except FileNotFoundError:
        missing = f"no world at {settings.world.dir}: import one with 'spaps import'"
        raise SettingsError(missing) from None
    except NotADirectoryError:
        raise SettingsError(f"{settings.world.dir}: is a file, not the folder of a world") from None
    except OSError as error:
        raise SettingsError(f"{settings.world.dir}: {error.strerror or error}") from error
