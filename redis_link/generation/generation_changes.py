"""What a generation changed for each subscription, kept beside it for brokers to pass on.

Written before the switch, so whoever notices the switch finds it. It expires by itself: who
changes over a day later tells its subscribers nothing but the new version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from redis_link.connection.client import RedisClient
from redis_link.connection.failures import redis_errors_from
from redis_link.sets.tally import Int64s
from schemas.errors import GenerationError
from schemas.redis_keys import generation_changes_key

KEEP_SECONDS: Final = 86_400
# Lowest byte first, whatever the machine.
PACKED: Final = np.dtype([("subId", "<i8"), ("gained", "<i4"), ("lost", "<i4"), ("lacks", "?")])

_WHAT: Final = "(the changes of a generation)"


@dataclass(frozen=True, slots=True, eq=False)
class SubscriptionChanges:
    """By subscription: members gained and lost, and whether no reference of it exists now.

    Those that are not listed have what they had before.
    """

    sub_ids: Int64s
    gained: Int64s
    lost: Int64s
    lacks_references: NDArray[np.bool_]

    def __len__(self) -> int:
        """The number of subscriptions that something is said about."""
        return len(self.sub_ids)


def keep_changes(client: RedisClient, generation: int, changes: SubscriptionChanges) -> None:
    """Keep the changes beside a generation that is about to be switched to."""
    rows = np.empty(len(changes), PACKED)
    rows["subId"], rows["gained"] = changes.sub_ids, changes.gained
    rows["lost"], rows["lacks"] = changes.lost, changes.lacks_references
    with redis_errors_from(_WHAT):
        client.set(generation_changes_key(generation), rows.tobytes(), ex=KEEP_SECONDS)


def read_changes(client: RedisClient, generation: int) -> SubscriptionChanges | None:
    """The changes, by subId; None when nobody knows them (any more)."""
    with redis_errors_from(_WHAT):
        content: Any = client.get(generation_changes_key(generation))
    return None if content is None else unpacked_changes(content)


def unpacked_changes(content: bytes) -> SubscriptionChanges:
    """The changes out of the value of the key, for who reads Redis in another way."""
    if len(content) % PACKED.itemsize:
        raise GenerationError("the changes of a generation in Redis are broken")
    rows = np.frombuffer(content, PACKED)
    # By the one column: rows as a whole are compared a hundred times slower.
    rows = rows[np.argsort(rows["subId"], kind="stable")]
    return SubscriptionChanges(
        rows["subId"].astype(np.int64),
        rows["gained"].astype(np.int64),
        rows["lost"].astype(np.int64),
        rows["lacks"],
    )
