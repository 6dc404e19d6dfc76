"""Settings: conf/spaps.toml read into frozen objects; whatever is wrong names its key.

The classes give types and the file gives defaults, so a setting is described once, where a
user reads it. Order, the first wins: option, environment, file given by ``--config``, defaults.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from schemas.broker_settings import BrokerSettings
from schemas.embedded_place import control_place
from schemas.errors import SettingsError

ENVIRONMENT_PREFIX: Final = "SPAPS"
DEFAULTS_FILE: Final = "spaps.toml"
# Read elsewhere: the password of the Redis that redis.url names.
OTHER_VARIABLES: Final = ("SPAPS_REDIS_PASSWORD",)
TRUE_WORDS: Final = ("true", "yes", "on", "1")
FALSE_WORDS: Final = ("false", "no", "off", "0")
# Instead of a URL: the broker keeps nothing beyond its process.
NO_REDIS: Final = "none"
# Instead of a path: the broker has no control socket.
NO_CONTROL: Final = "none"

Table = TypeVar("Table")


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """Where world versions lie: a folder, or a URI of an object store."""

    dir: str


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """Which Redis: the one at the URL, or the embedded one with its data in the folder.

    Without a folder the data lie with the world (schemas/embedded_place.py).

    The broker can do without: then the URL is ``NO_REDIS``.
    """

    url: str | None
    data_dir: Path | None


@dataclass(frozen=True, slots=True)
class RebuildSettings:
    """What `spaps rebuild` reads, where its results go, and how much of the past is kept."""

    sources: tuple[Path, ...]
    out: str
    records: Path
    engine: str
    keep_versions: int
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What the demonstration shows."""

    sources: tuple[Path, ...]
    subscriptions: Path
    out: Path


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set, table by table as in conf/spaps.toml."""

    world: WorldSettings
    redis: RedisSettings
    rebuild: RebuildSettings
    demo: DemoSettings
    broker: BrokerSettings


def load_settings(
    config: Path | None = None,
    options: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """The settings in force; ``options`` are ``{"world.dir": …}``, None meaning "not given"."""
    merged = _parse(_defaults(), "defaults")
    if config is not None:
        _lay_over(merged, _parse(_read(config), str(config)), f"{config}: ")
    surroundings = os.environ if environment is None else environment
    _lay_over(merged, _from_environment(surroundings, merged), "environment: ")
    given = {key: value for key, value in (options or {}).items() if value is not None}
    _lay_over(merged, _nested(given), "option: ")
    settings = build_table(Settings, merged, "")
    if not settings.world.dir.strip():
        raise SettingsError(
            "the folder of the world (world.dir) is an empty text: give --world DIR"
        )
    return settings


def control_socket_path(settings: Settings) -> Path | None:
    """Return where the control socket of the broker lies; None where it has none."""
    given = settings.broker.control
    if given == NO_CONTROL:
        return None
    return Path(given) if given else control_place(settings.world.dir)


@cache
def _defaults() -> str:
    return resources.files("conf").joinpath(DEFAULTS_FILE).read_text("utf-8")


def _read(path: Path) -> str:
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


def _lay_over(base: dict[str, Any], above: Mapping[str, Any], where: str, prefix: str = "") -> None:
    """Replace values of ``base`` by those given; keys that the defaults lack are errors."""
    for key, value in above.items():
        name = f"{prefix}{key}"
        if key not in base:
            known = ", ".join(f"{prefix}{other}" for other in sorted(base))
            raise SettingsError(f"{where}unknown setting {name}; known: {known}")
        if not isinstance(base[key], dict):
            base[key] = value
        elif not base[key] and isinstance(value, Mapping):
            # A table that is empty in the defaults takes any keys: somebody else knows them.
            base[key] = dict(value)
        elif isinstance(value, Mapping):
            _lay_over(base[key], value, where, f"{name}.")
        else:
            raise SettingsError(f"{where}{name} is a table of settings, not {_shown(value)}")


def _from_environment(environment: Mapping[str, str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Texts of the environment for keys that exist, as TOML values of the key's kind.

    A name that begins with one of our tables and fits no key is an error: ignored, a limit or a
    right that was meant would not hold. Other names that begin with SPAPS_ are left alone.
    """
    leaves = {_variable(path): (path, default) for path, default in _leaves(known)}
    tables = tuple(f"{_variable((table,))}_" for table in known)
    found: dict[str, Any] = {}
    for name, text in environment.items():
        if name in leaves:
            path, default = leaves[name]
            found[".".join(path)] = _typed(text, default, name)
        elif name.startswith(tables) and name not in OTHER_VARIABLES:
            raise SettingsError(f"environment: {name} is no setting; conf/spaps.toml has them all")
    return _nested(found)


def _variable(path: tuple[str, ...]) -> str:
    return "_".join((ENVIRONMENT_PREFIX, *path)).upper()


def _leaves(
    table: Mapping[str, Any], path: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], Any]]:
    leaves: list[tuple[tuple[str, ...], Any]] = []
    for key, value in table.items():
        below = (*path, key)
        leaves += _leaves(value, below) if isinstance(value, dict) else [(below, value)]
    return leaves


def _typed(text: str, default: Any, name: str) -> Any:
    """The text of a variable as the kind of value that the default has."""
    if isinstance(default, bool):
        if text.lower() not in TRUE_WORDS + FALSE_WORDS:
            raise SettingsError(f"environment: {name} must be true or false, not {text!r}")
        return text.lower() in TRUE_WORDS
    if isinstance(default, int | float):
        try:
            return int(text) if isinstance(default, int) else float(text)
        except ValueError:
            raise SettingsError(f"environment: {name} must be a number, not {text!r}") from None
    if isinstance(default, list):
        return [part for part in text.split(",") if part]
    return text


def _nested(dotted: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in dotted.items():
        *tables, last = key.split(".")
        inner = nested
        for table in tables:
            inner = inner.setdefault(table, {})
        inner[last] = value
    return nested


def build_table(kind: type[Table], table: Mapping[str, Any], prefix: str) -> Table:
    """An object of the class from a table that has exactly its fields."""
    if not is_dataclass(kind):
        raise TypeError(f"{kind} is no table of settings")
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    lacking = [f"{prefix}{name}" for name in names if name not in table]
    surplus = [f"{prefix}{name}" for name in table if name not in names]
    if lacking or surplus:
        raise SettingsError(f"defaults and classes differ: {', '.join(lacking + surplus)}")
    values = {name: _convert(table[name], hints[name], f"{prefix}{name}") for name in names}
    return kind(**values)


def _convert(value: Any, hint: Any, name: str) -> Any:
    """The value as the type of its field, or an error that names the key."""
    if is_dataclass(hint) and isinstance(hint, type):
        return build_table(hint, value, f"{name}.")
    if get_origin(hint) in (Union, UnionType):
        # TOML has no null: an empty text stands for "not set".
        inner = next(part for part in get_args(hint) if part is not NoneType)
        return None if value == "" else _convert(value, inner, name)
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise SettingsError(f"{name} must be a list, not {_shown(value)}")
        inner = get_args(hint)[0]
        return tuple(_convert(part, inner, f"{name}[{at}]") for at, part in enumerate(value))
    if get_origin(hint) is Mapping:
        if not isinstance(value, Mapping):
            raise SettingsError(f"{name} is a table of settings, not {_shown(value)}")
        return dict(value)
    return _convert_scalar(value, hint, name)


def _convert_scalar(value: Any, hint: Any, name: str) -> Any:
    if hint is Path and isinstance(value, str | Path):
        return Path(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise SettingsError(f"{name} must be {_kind_in_words(hint)}, not {_shown(value)}")


def _kind_in_words(hint: Any) -> str:
    words = {bool: "true or false", int: "a whole number", float: "a number"}
    return words.get(hint, "a text")


def _shown(value: Any) -> str:
    return "a table" if isinstance(value, Mapping) else repr(value)
