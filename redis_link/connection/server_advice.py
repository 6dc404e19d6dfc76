"""Settings of a Redis server that decide whether a generation is small and safe in it."""

from __future__ import annotations

from typing import Any, Final

from redis.exceptions import RedisError

from redis_link.connection.client import RedisClient
from redis_link.connection.server_risks import EVICTING

INTSET_SETTING: Final = "set-max-intset-entries"
# Up to this many members a set of integers costs 2 to 8 bytes each; above it Redis makes a
# hash table, with about 56. New subIds are the highest, so they are appended: length is no
# matter for the time that adding takes.
INTSET_ENTRIES: Final = 262_144


def server_advice(client: RedisClient) -> tuple[str, ...]:
    """What should be changed in the server's configuration; nothing where it does not tell."""
    texts: dict[str, str] = {}
    try:
        for name in (INTSET_SETTING, "maxmemory", "maxmemory-policy"):
            found: Any = client.config_get(name)
            texts |= found
    except RedisError:  # hosted servers forbid CONFIG
        return ()
    advice = []
    if int(texts.get(INTSET_SETTING, INTSET_ENTRIES)) < INTSET_ENTRIES:
        advice.append(
            f"{INTSET_SETTING} is {texts[INTSET_SETTING]}: an entity in more subscriptions takes "
            f"ten times the memory for each; {INTSET_ENTRIES} is advised"
        )
    policy = texts.get("maxmemory-policy", "noeviction")
    if policy.startswith(EVICTING) and texts.get("maxmemory", "0") != "0":
        advice.append(
            f"maxmemory-policy is {policy}: Redis may drop sets when memory is short; "
            "noeviction is advised"
        )
    return tuple(advice)
