"""Members of distinct neighborhoods, kept for whoever needs the same one again."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from redis_link.connection.client import RedisClient
from redis_link.connection.failures import redis_errors_from
from redis_link.sets.tally import Int64s
from schemas.redis_keys import resolved_key

KEEP_SECONDS: Final = 86_400
# Eight bytes a peid, lowest byte first, whatever the machine.
PACKED: Final = np.dtype("<i8")

_WHAT: Final = "(the resolved neighborhoods)"


def keep_resolved(client: RedisClient, neighborhood_hash: str, version: int, peids: Int64s) -> None:
    """Keep the visible peids of a neighborhood on a world version."""
    content = np.sort(peids).astype(PACKED).tobytes()
    with redis_errors_from(_WHAT):
        client.set(resolved_key(neighborhood_hash, version), content, ex=KEEP_SECONDS)


def find_resolved(client: RedisClient, neighborhood_hash: str, version: int) -> Int64s | None:
    """The peids, ascending, or None when nobody resolved it lately; asking renews the time."""
    with redis_errors_from(_WHAT):
        content: Any = client.getex(resolved_key(neighborhood_hash, version), ex=KEEP_SECONDS)
    return None if content is None else np.frombuffer(content, PACKED).astype(np.int64)
