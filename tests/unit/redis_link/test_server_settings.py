"""Which settings of a Redis server put at risk what a broker keeps there."""

from __future__ import annotations

import pytest

from redis_link.connection.server_settings import info_fields, risks_of

SAFE = {"maxmemory": "0", "maxmemory_policy": "noeviction", "aof_enabled": "1"}


@pytest.mark.parametrize(
    ("facts", "snapshots", "words"),
    [
        ({}, "", []),
        ({"maxmemory_policy": "allkeys-lru"}, "", []),  # without a limit nothing is evicted
        ({"maxmemory_policy": "noeviction", "maxmemory": "9"}, "", []),
        ({"maxmemory_policy": "allkeys-lru", "maxmemory": "9"}, "", ["evicts keys"]),
        ({"maxmemory_policy": "volatile-ttl", "maxmemory": "9"}, "", ["evicts keys"]),
        ({"aof_enabled": "0"}, "", ["nothing survives its end"]),
        ({"aof_enabled": "0"}, "3600 1", ["only what its last snapshot has"]),
        ({"aof_enabled": "0"}, None, ["at most what its last snapshot has"]),
        (
            {"aof_enabled": "0", "maxmemory_policy": "allkeys-lfu", "maxmemory": "9"},
            "",
            ["evicts keys", "nothing survives"],
        ),
    ],
)
def test_risks(facts: dict[str, str], snapshots: str | None, words: list[str]) -> None:
    found = risks_of(SAFE | facts, snapshots)
    assert len(found) == len(words)
    assert all(word in line for word, line in zip(words, found, strict=True))


def test_fields_of_info() -> None:
    text = b"# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\r\nexecutable:/a:b\r\n"
    assert info_fields(text) == {
        "maxmemory": "0", "maxmemory_policy": "noeviction", "executable": "/a:b",
    }  # fmt: skip
