"""What a Redis server may lose by its settings: by eviction, or with its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from redis_link.connection.redis_connection import RedisReplyError
from redis_link.connection.redis_router import RedisRouter
from schemas.errors import RedisLinkError

EVICTING: Final = ("allkeys-", "volatile-")


async def server_risks(wires: RedisRouter, key: str) -> tuple[str, ...]:
    """Return a line for each risk of the server that holds the key; RedisLinkError: it is away.

    INFO says most of it, and hosted servers allow it. When snapshots are taken stands in CONFIG,
    which some forbid.
    """
    facts = info_fields(await wires.ask(key, "INFO", "memory"))
    facts |= info_fields(await wires.ask(key, "INFO", "persistence"))
    snapshots: str | None = None
    try:
        found = await wires.ask(key, "CONFIG", "GET", "save")
        snapshots = found[1].decode() if len(found) > 1 else None
    except RedisReplyError:
        snapshots = None
    return risks_of(facts, snapshots)


def risks_of(facts: Mapping[str, str], snapshots: str | None) -> tuple[str, ...]:
    """Return the risks by the fields of INFO and by ``save``, None where that is not known."""
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
    """The risks of a server, as it was last asked."""

    def __init__(self, wires: RedisRouter, key: str) -> None:
        self._wires = wires
        self._key = key
        self.risks: tuple[str, ...] = ()

    async def look(self) -> tuple[str, ...]:
        """Ask the server; return the risks that are new. One that is away has no new ones."""
        try:
            found = await server_risks(self._wires, self._key)
        except RedisLinkError:
            return ()
        new = tuple(risk for risk in found if risk not in self.risks)
        self.risks = found
        return new
