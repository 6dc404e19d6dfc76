"""Listeners out of the settings, in amqtt's form, and the refusal to be open by accident."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amqtt.contexts import BrokerConfig
from dacite import DaciteError

from broker.access.addresses import Address, parse_address
from schemas.errors import SettingsError
from schemas.settings import BrokerSettings

# amqtt asks for one of this name; the others inherit from it what they leave out.
DEFAULT: Final = "default"
PORT: Final = 1883
# Keys of amqtt that mean nothing here: ignored, they would be a limit that does not hold.
UNUSED_KEYS: Final = ("max_connections", "reader", "writer")
KEYS: Final = ("type", "bind", "ssl", "certfile", "keyfile", "cafile", "capath", "cadata")
PORTS: Final = {("tcp", False): PORT, ("tcp", True): 8883, ("ws", False): 8083, ("ws", True): 8084}


def listener_addresses(settings: BrokerSettings) -> dict[str, Address]:
    """Where each listener shall listen, by its name."""
    addresses = {}
    if settings.listen:
        addresses[DEFAULT] = parse_address(settings.listen, "broker.listen", PORT)
    for name, table in settings.listeners.items():
        key = f"broker.listeners.{name}"
        if not isinstance(table, Mapping) or name == DEFAULT:
            raise SettingsError(f"{key}: write [broker.listeners.NAME], NAME other than {DEFAULT}")
        kind = str(table.get("type", "tcp"))
        if kind not in ("tcp", "ws"):
            raise SettingsError(f"{key}.type must be tcp or ws, not {kind!r}")
        for word in table.keys() - KEYS:
            if word not in UNUSED_KEYS:
                raise SettingsError(f"unknown setting {key}.{word}; known: {', '.join(KEYS)}")
        for unused in UNUSED_KEYS:
            if unused in table:
                raise SettingsError(f"{key}.{unused} is not supported; see broker.limits")
        default_port = PORTS[kind, bool(table.get("ssl"))]
        addresses[name] = parse_address(str(table.get("bind", "")), f"{key}.bind", default_port)
    if not addresses:
        raise SettingsError("broker.listen is empty and there are no broker.listeners")
    return addresses


def amqtt_config(settings: BrokerSettings) -> BrokerConfig:
    """The whole configuration for amqtt; its complaints name the setting."""
    addresses = listener_addresses(settings)
    bind = str(addresses[DEFAULT]) if DEFAULT in addresses else None
    listeners: dict[str, Any] = {DEFAULT: {"bind": bind}}
    for name, table in settings.listeners.items():
        key = f"broker.listeners.{name}"
        if table.get("ssl") and not (table.get("certfile") and table.get("keyfile")):
            raise SettingsError(f"{key}: ssl needs certfile and keyfile")
        listeners[name] = {**table, "bind": str(addresses[name])}
        _checked({"listeners": {DEFAULT: {}, name: dict(listeners[name])}}, key)
    for plugin in settings.plugins:
        if "." not in plugin:
            raise SettingsError(
                f"broker.plugins: {plugin!r} is no plugin: write package.module.Class in quotes"
            )
    return _checked({"listeners": listeners, "plugins": dict(settings.plugins)}, "broker")


def check_openness(settings: BrokerSettings, *, lets_anybody_in: bool) -> None:
    """Refuse to serve the whole world without knowing anybody."""
    if not lets_anybody_in or settings.anonymous_from_anywhere:
        return
    for name, address in listener_addresses(settings).items():
        if address.is_public:
            raise SettingsError(
                f"listener {name} at {address} can be reached from other machines, and clients "
                "need no password: set broker.password_file instead of allowing anonymous "
                "clients, or set broker.anonymous_from_anywhere if that is what you want"
            )


def _checked(content: dict[str, Any], key: str) -> BrokerConfig:
    try:
        return BrokerConfig.from_dict(content)
    except (DaciteError, ValueError, OSError) as error:
        raise SettingsError(f"{key}: {' '.join(str(error).split())}") from error
