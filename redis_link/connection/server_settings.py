"""Judges the settings of a Redis server: what may be lost, and what takes too much memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from redis.exceptions import RedisError

from redis_link.connection.client import RedisClient
from redis_link.connection.embedded import INTSET_ENTRIES, INTSET_SETTING
from redis_link.connection.redis_connection import RedisReplyError
from redis_link.connection.redis_router import RedisRouter
from schemas.errors import RedisLinkError

EVICTING: Final = ("allkeys-", "volatile-")


async def server_risks(router: RedisRouter, key: str) -> tuple[str, ...]:
    """Return a line for each risk of the server that holds the key; RedisLinkError: it is away.

    INFO says most of it, and hosted servers allow INFO. Only CONFIG says when snapshots are taken,
    and some servers forbid CONFIG.
    """
    facts = info_fields(await router.ask(key, "INFO", "memory"))
    facts |= info_fields(await router.ask(key, "INFO", "persistence"))
    snapshots: str | None = None
    try:
        found = await router.ask(key, "CONFIG", "GET", "save")
        snapshots = found[1].decode() if len(found) > 1 else None
    except RedisReplyError:
        snapshots = None
    return risks_of(facts, snapshots)


def risks_of(facts: Mapping[str, str], snapshots: str | None) -> tuple[str, ...]:
    """Return the risks; ``snapshots`` is the setting ``save``, None where it is not known."""
    risks = []
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy.startswith(EVICTING) and facts.get("maxmemory", "0") != "0":
        risks.append(
            f"Redis evicts keys when its memory is full (maxmemory-policy {policy}): sessions and "
            "memberships may vanish; set noeviction"
        )
    if facts.get("aof_enabled", "1") == "0":
        kept = "only what its last snapshot has" if snapshots else "nothing"
        if snapshots is None:
            kept = "at most what its last snapshot has"
        risks.append(f"Redis has no append-only file: {kept} survives its end; set appendonly yes")
    return tuple(risks)


def info_fields(text: bytes) -> dict[str, str]:
    """Return the fields of an answer to INFO."""
    lines = text.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


class ServerWatch:
    """The risks of a server, as of the last time it was asked."""

    def __init__(self, router: RedisRouter, key: str) -> None:
        self._router = router
        self._key = key
        self.risks: tuple[str, ...] = ()

    async def look(self) -> tuple[str, ...]:
        """Ask the server and return the risks that are new; none when it is away."""
        try:
            found = await server_risks(self._router, self._key)
        except RedisLinkError:
            return ()
        new = tuple(risk for risk in found if risk not in self.risks)
        self.risks = found
        return new


def server_advice(client: RedisClient) -> tuple[str, ...]:
    """Return what should be changed in the server's settings; nothing where it does not tell."""
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
