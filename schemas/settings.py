"""Loads the settings into frozen objects; an error names the wrong key.

The classes have the types and conf/spaps.toml has the defaults, so each setting is described once,
where users read it. An option overrides the environment, which overrides the file given by
``--config``, which overrides the defaults.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from schemas.errors import Mistakes, SettingsError
from schemas.setting_values import build_table, lay_over, nested, read_environment
from schemas.world_places import control_place

DEFAULTS_FILE: Final = "spaps.toml"
# In place of a URL: the broker stores nothing outside of its process.
NO_REDIS: Final = "none"
# In place of a path: the broker has no control socket.
NO_CONTROL: Final = "none"


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """Where world versions lie: a folder, or a URI of an object store."""

    dir: str


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """The Redis server at the URL, or the embedded one with its data in the folder.

    Without a folder the data are stored with the world (schemas/world_places.py). For a broker
    without Redis the URL is ``NO_REDIS``.
    """

    url: str | None
    data_dir: Path | None


@dataclass(frozen=True, slots=True)
class RebuildSettings:
    """The input and output of `spaps rebuild`, and how many old results it keeps."""

    sources: tuple[Path, ...]
    out: str
    records: Path
    engine: str
    keep_versions: int
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class BulkSettings:
    """What the bulk job's driver may hold, and when it takes sets over."""

    most_conditions: int
    most_changed: float


@dataclass(frozen=True, slots=True)
class QualitySettings:
    """The shares beyond which a result is not switched to, as numbers from 0 to 1.

    A share of fewer than ``counted_from`` entities, members or subscriptions says nothing.
    """

    entities_gone: float
    members_gone: float
    unresolved: float
    counted_from: int


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The settings of `spaps demo`."""

    sources: tuple[Path, ...]
    subscriptions: Path
    out: Path


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
    tell_unknown_entities: bool
    websocket_origins: tuple[str, ...]
    gateway: tuple[str, ...]
    log_format: str
    log_level: str
    limits: Mapping[str, Any]
    listeners: Mapping[str, Any]
    plugins: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, by the tables of conf/spaps.toml."""

    world: WorldSettings
    redis: RedisSettings
    rebuild: RebuildSettings
    bulk: BulkSettings
    quality: QualitySettings
    demo: DemoSettings
    broker: BrokerSettings


def load_settings(
    config: Path | None = None,
    options: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings; in ``options`` (``{"world.dir": …}``) None means "not given"."""
    mistakes = Mistakes()
    settings = read_settings(mistakes, config, options, environment)
    mistakes.check()
    if settings is None:
        raise SettingsError("the settings cannot be read")
    return settings


def read_settings(
    mistakes: Mistakes,
    config: Path | None = None,
    options: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings | None:
    """Return the settings without those that are mistakes, which are collected.

    None when what is left cannot be used.
    """
    merged = _parse(_defaults(), "defaults")
    if config is not None:
        with mistakes.noted():
            lay_over(merged, _parse(read_text(config), str(config)), f"{config}: ")
    surroundings = os.environ if environment is None else environment
    with mistakes.noted():
        lay_over(merged, read_environment(surroundings, merged), "environment: ")
    given = {key: value for key, value in (options or {}).items() if value is not None}
    with mistakes.noted():
        lay_over(merged, nested(given), "option: ")
    settings = None
    with mistakes.noted():
        settings = build_table(Settings, merged, "")
        if not settings.world.dir.strip():
            mistakes.append(
                "the folder of the world (world.dir) is an empty text: give --world DIR"
            )
    return settings


def control_socket_path(settings: Settings) -> Path | None:
    """Return the path of the broker's control socket; None if it has none."""
    given = settings.broker.control
    if given == NO_CONTROL:
        return None
    return Path(given) if given else control_place(settings.world.dir)


@cache
def _defaults() -> str:
    return resources.files("conf").joinpath(DEFAULTS_FILE).read_text("utf-8")


def read_text(path: Path) -> str:
    """Return the text of a file; SettingsError names the file."""
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 text (byte {error.start})") from error


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{where}: {error}") from error
