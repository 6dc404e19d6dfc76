"""What can be set about the broker; conf/spaps.toml says what each of these means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The table [broker]. ``listeners`` and ``plugins`` take any keys: they are amqtt's."""

    name: str
    listen: str
    http: str | None
    http_users: tuple[str, ...]
    http_from_anywhere: bool
    control: str | None
    memberships: str
    allow_anonymous: bool
    anonymous_from_anywhere: bool
    password_file: Path | None
    acl_file: Path | None
    tell_denials: bool
    websocket_origins: tuple[str, ...]
    gateway: tuple[str, ...]
    log_format: str
    log_level: str
    limits: Mapping[str, Any]
    listeners: Mapping[str, Any]
    plugins: Mapping[str, Any]
