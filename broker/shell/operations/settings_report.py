"""Says in words what a broker does with its settings: listeners, clients, rights, state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from broker.access.addresses import Address
from broker.shell.admission import Admission
from broker.shell.network.listeners import listener_addresses
from broker.shell.operations.settings_check import check_settings
from broker.shell.operator_interfaces import http_address
from broker.shell.service import BrokerService
from redis_link.connection.url import masked
from schemas.errors import SettingsError, WorldError
from schemas.settings import NO_REDIS, BrokerSettings, Settings, control_socket_path
from schemas.world_places import embedded_place
from world.versions.store import WorldStore

# Of a longer list so many names are shown.
MOST_NAMES: Final = 10


@dataclass(frozen=True, slots=True)
class SettingsReport:
    """What the broker does, and the warnings that it would log at its start."""

    statements: tuple[str, ...]
    warnings: tuple[str, ...]


def report_on(settings: Settings) -> SettingsReport:
    """Return the report; SettingsError has all mistakes. No port is opened, no Redis started."""
    check_settings(settings)
    warnings = _Warnings()
    root = logging.getLogger()
    before = root.handlers[:]
    root.handlers[:] = [warnings]
    try:
        # The broker itself, built and not started: what it would refuse is refused here.
        admission, world_version = asyncio.run(_build(settings))
    finally:
        root.handlers[:] = before
    statements = (
        *_listeners(settings.broker, admission),
        *_clients(settings.broker, admission),
        *_state(settings, world_version),
    )
    return SettingsReport(
        statements, tuple(dict.fromkeys([*warnings.lines, *_oddities(admission)]))
    )


class _Warnings(logging.Handler):
    """Collects warnings instead of writing them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def _build(settings: Settings) -> tuple[Admission, int]:
    # As the runner does it; the socket of an embedded server is not opened here.
    url = settings.redis.url or f"unix://{_embedded(settings)}/redis.sock"
    redis = replace(settings.redis, url=None if url == NO_REDIS else url)
    service = BrokerService(replace(settings, redis=redis))
    version = 0
    if service.memberships.serves_neighborhoods:
        try:
            version = WorldStore(settings.world.dir).latest().version
        except WorldError as error:
            raise SettingsError(str(error)) from error
    service.admission.logins.close()
    return service.admission, version


def _listeners(settings: BrokerSettings, admission: Admission) -> Iterator[str]:
    expiries = admission.certificates.expiries
    for name, address in listener_addresses(settings).items():
        table: Mapping[str, Any] = settings.listeners.get(name, {})
        kind = "MQTT over WebSocket" if table.get("type") == "ws" else "MQTT"
        tls = " with TLS" if table.get("ssl") else ""
        yield f"listens at {address} ({name}): {kind}{tls}, {_reach(address)}"
        for key, what in (("certfile", "certificate"), ("cafile", "authority of clients")):
            file = str(table.get(key) or "")
            if file in expiries and tls:
                day = datetime.fromtimestamp(expiries[file], UTC).date().isoformat()
                yield f"  {what} {file}, until {day}"
    pages = http_address(settings.http)
    if pages is None:
        yield "no health page and no metrics: broker.http is empty"
    else:
        login = f"for {_names(settings.http_users)}" if settings.http_users else "without a login"
        yield f"health page and metrics at {pages}: {login}, {_reach(pages)}"


def _clients(settings: BrokerSettings, admission: Admission) -> Iterator[str]:
    passwords, rules = admission.files.passwords, admission.files.rules
    if admission.logins.refuses_all:
        yield "nobody may connect"
    if passwords is not None:
        yield f"may connect: {_names(passwords.content.names)} ({passwords.path})"
    if settings.plugins:
        yield f"logins and rights are decided by plugins too: {_names(tuple(settings.plugins))}"
    if admission.logins.allow_anonymous:
        yield "may connect: clients without a user name"
    if rules is None:
        yield "every client may use all topics: broker.acl_file is empty"
    else:
        content = rules.content
        yield (
            f"rights by topic in {rules.path}: rules for {_names(tuple(content.users))}, "
            f"{len(content.anonymous)} for clients without a user name, "
            f"{len(content.patterns)} patterns for all; everything else is refused"
        )


def _state(settings: Settings, world_version: int) -> Iterator[str]:
    mode = settings.broker.memberships
    if mode == "none":
        yield "neighborhoods are not served: broker.memberships is none"
    else:
        yield f"neighborhoods on world version {world_version} of {settings.world.dir}, mode {mode}"
    url, control = settings.redis.url, control_socket_path(settings)
    if url == NO_REDIS:
        yield "nothing survives the process: redis.url is none"
    elif url is None:
        yield f"sessions, subscriptions and messages in an embedded Redis in {_embedded(settings)}"
    else:
        name = settings.broker.name
        yield f"sessions, subscriptions and messages in Redis at {masked(url)}, as broker {name}"
    yield "no control socket" if control is None else f"control socket of spaps sessions: {control}"


def _embedded(settings: Settings) -> Path:
    return settings.redis.data_dir or embedded_place(settings.world.dir)


def _oddities(admission: Admission) -> Iterator[str]:
    """Yield what is allowed and hardly meant."""
    passwords, rules = admission.files.passwords, admission.files.rules
    if passwords is None or rules is None:
        return
    for name in rules.content.users.keys() - set(passwords.content.names):
        yield f"{rules.path}: rules for user {name!r}, who is not in {passwords.path}"


def _reach(address: Address) -> str:
    return "from other machines" if address.is_public else "from this machine alone"


def _names(names: tuple[str, ...]) -> str:
    """Return names in a list, the first of them if there are many."""
    if not names:
        return "no user"
    shown = ", ".join(names[:MOST_NAMES])
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES} more"
