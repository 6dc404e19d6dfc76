"""Reads and changes the named neighborhoods of a Redis, for commands."""

from __future__ import annotations

import time
import uuid
from typing import Any, Final

from redis_link.connection.client import RedisClient
from redis_link.connection.failures import redis_errors_from
from redis_link.connection.redis_router import Script
from redis_link.registry.name_scripts import (
    ADD,
    EDITION_FIELD,
    FULL,
    IN_USE,
    NOT_THERE,
    REMOVE,
)
from schemas.errors import NamedNeighborhoodError, NameInUseError
from schemas.language.neighborhood import Neighborhood, neighborhood_hash
from schemas.named_neighborhood import MOST_NAMES, NamedNeighborhood, checked_name
from schemas.redis_keys import NAMES_CHANNEL, name_users_key, names_key

_WHAT: Final = "(the named neighborhoods)"


def add_name(client: RedisClient, name: str, neighborhood: Neighborhood) -> bool:
    """Give a neighborhood a name; return whether the name is new, or stood for another one."""
    definition = NamedNeighborhood(
        checked_name(name), neighborhood.to_json(), neighborhood_hash(neighborhood), time.time()
    )
    answer = _run(client, ADD, [names_key()], name, definition.to_json(), MOST_NAMES)
    if answer == FULL:
        raise NamedNeighborhoodError(
            f"there are {MOST_NAMES:,} named neighborhoods, and no more are allowed: remove one"
        )
    return bool(answer)


def remove_name(client: RedisClient, name: str, *, forced: bool) -> int:
    """Remove a name; return how many subscriptions used it. A used one must be forced."""
    keys = [names_key(), name_users_key(checked_name(name))]
    answer, users = _run(client, REMOVE, keys, name, int(forced))
    if answer == NOT_THERE:
        raise _unknown(name)
    if answer == IN_USE:
        many = "1 subscription uses" if users == 1 else f"{users:,} subscriptions use"
        raise NameInUseError(
            f"{many} the neighborhood {name!r}: with --force they are left without members"
        )
    return int(users)


def all_names(client: RedisClient) -> list[NamedNeighborhood]:
    """Return all named neighborhoods, by name."""
    with redis_errors_from(_WHAT):
        found: Any = client.hgetall(names_key())
    named = {field.decode(): text for field, text in found.items()}
    named.pop(EDITION_FIELD, None)
    return [NamedNeighborhood.from_json(name, text) for name, text in sorted(named.items())]


def find_name(client: RedisClient, name: str) -> NamedNeighborhood:
    """Return the neighborhood of this name; NamedNeighborhoodError when there is none."""
    with redis_errors_from(_WHAT):
        text: Any = client.hget(names_key(), checked_name(name))
    if text is None:
        raise _unknown(name)
    return NamedNeighborhood.from_json(name, text)


def users_of(client: RedisClient, name: str) -> int:
    """Return the number of subscriptions, of all brokers, that use the name."""
    with redis_errors_from(_WHAT):
        return int(client.scard(name_users_key(name)))


def _run(client: RedisClient, script: Script, keys: list[str], *words: str | int) -> Any:
    arguments = [NAMES_CHANNEL, uuid.uuid4().hex, *map(str, words)]
    with redis_errors_from(_WHAT):
        return client.eval(script.text, len(keys), *keys, *arguments)


def _unknown(name: str) -> NamedNeighborhoodError:
    return NamedNeighborhoodError(f"no neighborhood is named {name!r}: 'spaps neighborhood list'")
