"""Registers the subscriptions of a benchmark in Redis, all at once."""

from __future__ import annotations

import json
from typing import Final

from redis_link.connection.client import RedisClient
from schemas import redis_keys
from schemas.language.descriptor_json import parse_descriptor
from schemas.language.neighborhood import neighborhood_hash
from schemas.subscription import Registration
from spatial_udfs.entity_table import EntityTable
from testing.mixed_subscriptions import mixed_descriptors

SEED: Final = 7
REGISTERED_AT_ONCE: Final = 5_000


def register(client: RedisClient, table: EntityTable, count: int) -> None:
    """Register all at once: a broker would do it one by one over months."""
    print(f"registering {count:,} subscriptions", flush=True)
    known: dict[str, str] = {}
    batch: dict[str, str] = {}
    client.set(redis_keys.registry_id_key(), "bench")
    client.set(redis_keys.last_sub_id_key(), count)
    for sub_id, descriptor in enumerate(mixed_descriptors(table, count, SEED), start=1):
        text = json.dumps(descriptor, separators=(",", ":"))
        if text not in known:
            known[text] = neighborhood_hash(parse_descriptor(text))
        entry = Registration(f"client-{sub_id}", 1, "#", text, known[text])
        batch[str(sub_id)] = entry.to_json()
        if len(batch) >= REGISTERED_AT_ONCE or sub_id == count:
            client.hset(redis_keys.subscriptions_key(), mapping=batch)
            batch = {}
