"""The push on Spark: Redis holds what Delta holds, or what it held before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs import push_to_redis
from jobs.pipeline import spark_push
from jobs.pipeline.spark_push import push_generation
from redis_link.connection.client import RedisClient, connect
from redis_link.generation import generation_store
from redis_link.generation.generation_push import GenerationPush, PushSource
from schemas.errors import GenerationError, PushBusyError, QualityError, WorldError
from schemas.generation import RegistryCoverage
from schemas.membership import MEMBERSHIPS_TABLE, RUNS_TABLE
from schemas.redis_keys import membership_key
from tests.scenes.pushed_lake import AT_ONCE, EMPTY_VERSION, LARGE, pairs_in_delta, push
from tests.servers.redis_content import numbers_of_generations, pairs_in_redis
from tests.servers.redis_server import RedisServer, running_redis

pytestmark = pytest.mark.spark


def test_redis_holds_what_delta_holds(
    spark: Any, lake: Path, server: RedisServer, client: RedisClient
) -> None:
    expected = pairs_in_delta(spark, lake, 1)
    coverage = RegistryCoverage("registry", 96)
    table = lake / MEMBERSHIPS_TABLE
    first = push(spark, table, 1, server.url, coverage=coverage)
    assert pairs_in_redis(client, first) == expected
    facts = generation_store.current_generation(client)
    assert facts is not None
    assert (facts.generation, facts.version) == (first, 1)
    assert (facts.pairs, facts.peids) == (len(expected), len({peid for peid, _ in expected}))
    assert facts.coverage == coverage
    # The folder that holds the table, and the newest version with rows.
    second = push(spark, lake, 2, server.url)
    assert pairs_in_redis(client, second) == pairs_in_delta(spark, lake, 2)
    assert (LARGE, 5) in pairs_in_redis(client, second)
    assert numbers_of_generations(client) == {second}


def test_report_and_progress(
    spark: Any, lake: Path, server: RedisServer, client: RedisClient
) -> None:
    said: list[str] = []
    report = push_generation(spark, str(lake), 2, server.url, retention=AT_ONCE, say=said.append)
    assert report.pairs == len(pairs_in_redis(client, report.generation))
    assert f"{report.pairs:,} pairs" in report.summary()
    assert set(report.seconds) == {"open", "write", "verify", "switch", "total"}
    assert report.bytes_per_pair is not None
    assert len(said) >= 2
    assert not any("Spark reads the table" in line for line in said)


def test_a_version_without_any_member_is_an_empty_generation(
    spark: Any, lake: Path, server: RedisServer, client: RedisClient
) -> None:
    generation = push(spark, lake, None, server.url)
    facts = generation_store.current_generation(client)
    assert facts is not None
    assert (facts.generation, facts.version, facts.pairs) == (generation, EMPTY_VERSION, 0)


def test_what_is_not_there_is_said(
    spark: Any, lake: Path, server: RedisServer, client: RedisClient, tmp_path: Path
) -> None:
    with pytest.raises(WorldError, match="no memberships of world version 7; it has 1, 2, 9"):
        push(spark, lake, 7, server.url)
    with pytest.raises(WorldError, match="no Delta table of memberships"):
        push(spark, tmp_path / "nowhere", 1, server.url)
    with pytest.raises(WorldError, match="it lacks peid, subId"):
        push(spark, lake / RUNS_TABLE, 1, server.url)
    assert generation_store.current_number(client) is None


@pytest.mark.parametrize("damage", ["none", "lost", "added"])
def test_damage_before_reading_back_stops_the_switch(
    damage: str,
    spark: Any,
    lake: Path,
    server: RedisServer,
    client: RedisClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = push(spark, lake, 1, server.url)
    original = spark_push.read_generation_back

    def damaged(*arguments: Any) -> Any:
        key = membership_key(old + 1, LARGE)
        assert client.smembers(key) == {b"5"}
        if damage == "lost":
            client.delete(key)
        if damage == "added":
            client.sadd(key, 6)
        return original(*arguments)

    monkeypatch.setattr(spark_push, "read_generation_back", damaged)
    if damage == "none":
        assert push(spark, lake, 2, server.url) == old + 1
        return
    with pytest.raises(GenerationError, match="is not what was written"):
        push(spark, lake, 2, server.url)
    assert generation_store.current_number(client) == old
    assert numbers_of_generations(client) == {old}


def test_an_error_of_a_task_is_one_line(
    spark: Any,
    lake: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running_redis(tmp_path_factory.mktemp("small")) as small:
        client = connect(small.url)
        original = spark_push.write_generation

        def write_into_full_memory(*arguments: Any) -> Any:
            client.config_set("maxmemory", 1)
            return original(*arguments)

        monkeypatch.setattr(spark_push, "write_generation", write_into_full_memory)
        with pytest.raises(GenerationError, match=r"^the push failed: [^\n]*memory limit[^\n]*$"):
            push(spark, lake, 2, small.url)
        assert generation_store.current_number(client) is None
        assert numbers_of_generations(client) == set()


def test_two_at_once(spark: Any, lake: Path, server: RedisServer, client: RedisClient) -> None:
    source = PushSource(1, "a push on another machine")
    with (
        GenerationPush(client, source),
        pytest.raises(PushBusyError, match="a push on another machine"),
    ):
        push(spark, lake, 1, server.url)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PushBusyError("it runs"), 3),
        (GenerationError("it failed"), 2),
        (QualityError("too much is gone"), 5),
    ],
)
def test_exit_codes(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(push_to_redis, "_push", fail)
    assert push_to_redis.main(["--memberships", "x", "--redis", "redis://nowhere"]) == code
    assert capsys.readouterr().err == f"error: {error}\n"
