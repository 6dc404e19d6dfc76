"""Merges layers of settings, reads environment variables, and checks types.

A wrong value is a SettingsError that names the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from schemas.errors import Mistakes, SettingsError

ENVIRONMENT_PREFIX: Final = "SPAPS"
# Read elsewhere: the password of the Redis that redis.url names.
OTHER_VARIABLES: Final = ("SPAPS_REDIS_PASSWORD",)
TRUE_WORDS: Final = ("true", "yes", "on", "1")
FALSE_WORDS: Final = ("false", "no", "off", "0")

Table = TypeVar("Table")


def lay_over(base: dict[str, Any], above: Mapping[str, Any], where: str, prefix: str = "") -> None:
    """Replace values of ``base`` by those of ``above``; all unknown keys are one error."""
    mistakes = Mistakes()
    for key, value in above.items():
        name = f"{prefix}{key}"
        if key not in base:
            known = ", ".join(f"{prefix}{other}" for other in sorted(base))
            mistakes.append(f"{where}unknown setting {name}; known: {known}")
        elif not isinstance(base[key], dict):
            base[key] = value
        elif not base[key] and isinstance(value, Mapping):
            # A table that is empty in the defaults takes any keys: another library checks them.
            base[key] = dict(value)
        elif isinstance(value, Mapping):
            with mistakes.noted():
                lay_over(base[key], value, where, f"{name}.")
        else:
            mistakes.append(f"{where}{name} is a table of settings, not {_shown(value)}")
    mistakes.check()


def read_environment(environment: Mapping[str, str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the environment, each of the type of its default.

    A name that begins with one of our tables and fits no key is an error: if it were ignored, a
    limit or a right that the user meant to set would not apply. Other names that begin with SPAPS_
    are ignored.
    """
    leaves = {_variable(path): (path, default) for path, default in _leaves(known)}
    tables = tuple(f"{_variable((table,))}_" for table in known)
    found: dict[str, Any] = {}
    mistakes = Mistakes()
    for name, text in environment.items():
        if name in leaves:
            path, default = leaves[name]
            with mistakes.noted():
                found[".".join(path)] = _typed(text, default, name)
        elif name.startswith(tables) and name not in OTHER_VARIABLES:
            mistakes.append(f"environment: {name} is no setting; conf/spaps.toml has them all")
    mistakes.check()
    return nested(found)


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
    """Return the text of a variable as a value of the default's type."""
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


def nested(dotted: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables for keys such as ``world.dir``."""
    tables: dict[str, Any] = {}
    for key, value in dotted.items():
        *path, last = key.split(".")
        inner = tables
        for table in path:
            inner = inner.setdefault(table, {})
        inner[last] = value
    return tables


def build_table(kind: type[Table], table: Mapping[str, Any], prefix: str) -> Table:
    """Return an object of the class from a table with exactly its fields."""
    if not is_dataclass(kind):
        raise TypeError(f"{kind} is no table of settings")
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    lacking = [f"{prefix}{name}" for name in names if name not in table]
    surplus = [f"{prefix}{name}" for name in table if name not in names]
    if lacking or surplus:
        raise SettingsError(f"defaults and classes differ: {', '.join(lacking + surplus)}")
    values: dict[str, Any] = {}
    mistakes = Mistakes()
    for name in names:
        with mistakes.noted():
            values[name] = _convert(table[name], hints[name], f"{prefix}{name}")
    mistakes.check()
    return kind(**values)


def _convert(value: Any, hint: Any, name: str) -> Any:
    """Return the value as the type of its field; SettingsError names the key."""
    if is_dataclass(hint) and isinstance(hint, type):
        return build_table(hint, value, f"{name}.")
    if get_origin(hint) in (Union, UnionType):
        # TOML has no null: an empty string means "not set".
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
