"""Watches which generation Redis names and which one the broker filters by, many times a second."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time

from redis.asyncio import Redis
from redis.exceptions import RedisError

from schemas.generation import GenerationFacts
from schemas.redis_keys import current_generation_key, generations_key
from tests.soak.records import Records, note_sighting

LOOK_SECONDS = 0.02
ANSWER_SECONDS = 5.0


async def watch_redis(url: str, records: Records) -> None:
    """Note each generation that is in force in Redis, and its world version."""
    async with Redis.from_url(url, socket_timeout=ANSWER_SECONDS) as client:
        while not _is_over():
            asked = time.monotonic()
            with contextlib.suppress(RedisError, OSError):
                number = await client.get(current_generation_key())
                if number is not None and note_sighting(
                    records.in_redis, int(number), asked, time.monotonic()
                ):
                    await _note_version(client, int(number), records)
            await asyncio.sleep(LOOK_SECONDS)


async def _note_version(client: Redis, generation: int, records: Records) -> None:
    text = await client.hget(generations_key(), str(generation))
    if text is not None:
        records.versions[generation] = GenerationFacts.from_json(generation, text).version


async def watch_broker(http_port: int, records: Records) -> None:
    """Note each generation that the broker filters by."""
    while not _is_over():
        asked = time.monotonic()
        with contextlib.suppress(OSError, TimeoutError, ValueError, EOFError):
            async with asyncio.timeout(ANSWER_SECONDS):
                health = json.loads(await _health(http_port))
            # A broker that is starting filters nothing yet: no client can connect.
            if health["status"] != "starting":
                note_sighting(records.in_broker, health["generation"], asked, time.monotonic())
        await asyncio.sleep(LOOK_SECONDS)


async def _health(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return (await reader.read()).partition(b"\r\n\r\n")[2]
    finally:
        writer.close()


def _is_over() -> bool:
    """Whether this task was cancelled: what times out its own calls may swallow that."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
