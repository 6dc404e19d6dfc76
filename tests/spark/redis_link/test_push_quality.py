"""The push on Spark stops before it switches to a generation that lacks too much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from jobs.pipeline.spark_push import push_generation
from redis_link.connection.client import connect
from redis_link.generation.generation_store import current_number
from redis_link.generation.quality_gate import QualityGate
from redis_link.generation.sweep import Retention
from schemas.errors import QualityError
from schemas.generation import RegistryCoverage
from schemas.membership import MEMBERSHIPS_TABLE, RUNS_TABLE
from schemas.redis_keys import subscriptions_key
from schemas.settings import QualitySettings
from tests.servers.redis_content import numbers_of_generations
from tests.servers.redis_server import running_redis

pytestmark = pytest.mark.spark

AT_ONCE = Retention(grace_seconds=0)
RUN = "20260101T000000-aaaaaaaa"


def write_version(folder: Path, version: int, entities: int, subscriptions: int = 4) -> None:
    """Each entity is in all subscriptions."""
    pairs = [(sub_id, peid) for peid in range(entities) for sub_id in range(subscriptions)]
    rows = [(sub_id, peid, 1, version) for sub_id, peid in pairs]
    names = ("subId", "peid", "stageNo", "version")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    write_deltalake(
        folder / MEMBERSHIPS_TABLE, pa.table(columns), mode="append", partition_by=["version"]
    )


def gate(**limits: float) -> QualityGate:
    given = {"entities_gone": 1.0, "members_gone": 1.0, "unresolved": 1.0} | limits
    return QualityGate(QualitySettings(**given, counted_from=100))


def test_the_edges(spark: Any, tmp_path: Path) -> None:
    for version, entities in ((1, 100), (2, 90)):
        write_version(tmp_path, version, entities)

    def push(version: int, limits: QualityGate) -> int:
        report = push_generation(
            spark, str(tmp_path), version, server.url, retention=AT_ONCE, gate=limits
        )
        assert report.cleanup is not None
        report.cleanup.wait()
        return report.generation

    with running_redis(tmp_path / "redis") as server:
        client = connect(server.url)
        first = push(1, gate(entities_gone=0.0, members_gone=0.0))
        for limits, words in (
            (gate(entities_gone=0.099), "10 of 100 entities with members would be gone"),
            (gate(members_gone=0.099), "40 of 400 members would be gone"),
        ):
            with pytest.raises(QualityError, match=words):
                push(2, limits)
            assert current_number(client) == first
            assert numbers_of_generations(client) == {first}
        second = push(2, gate(entities_gone=0.1, members_gone=0.1))
        assert current_number(client) == second
        client.close()


def test_subscriptions_that_ended_are_not_lost(spark: Any, tmp_path: Path) -> None:
    """Of four subscriptions one ends, and the others lose ten entities each."""
    write_version(tmp_path, 1, 100)
    write_version(tmp_path, 2, 90, subscriptions=3)
    covered = RegistryCoverage("the registry", 3)

    def push(version: int, limits: QualityGate | None) -> None:
        push_generation(
            spark, str(tmp_path), version, server.url, coverage=covered, retention=AT_ONCE,
            gate=limits,
        )  # fmt: skip

    with running_redis(tmp_path / "redis") as server:
        client = connect(server.url)
        push(1, None)
        client.hset(subscriptions_key(), mapping={str(number): "{}" for number in range(3)})
        with pytest.raises(QualityError, match="30 of 300 members would be gone"):
            push(2, gate(members_gone=0.0))
        client.delete(subscriptions_key())
        push(2, gate(entities_gone=0.0, members_gone=0.0))
        client.close()


def test_unresolved_subscriptions_of_the_run(spark: Any, tmp_path: Path) -> None:
    write_version(tmp_path, 1, 10)
    facts = {"version": [1], "runId": [RUN], "commit": [0], "rows": [40]}
    run = {**facts, "subscriptions": [200], "unresolvedCount": [21]}
    table = pa.table(run).append_column("finishedAt", pa.array([0], pa.timestamp("us", tz="UTC")))
    write_deltalake(tmp_path / RUNS_TABLE, table)
    with running_redis(tmp_path / "redis") as server:
        client = connect(server.url)
        with pytest.raises(QualityError, match="21 of 200 subscriptions are unresolved"):
            push_generation(spark, str(tmp_path), 1, server.url, gate=gate(unresolved=0.1))
        assert current_number(client) is None
        said: list[str] = []
        push_generation(
            spark, str(tmp_path), 1, server.url, retention=AT_ONCE, say=said.append,
            gate=QualityGate(gate(unresolved=0.1).limits, switch_anyway=True),
        )  # fmt: skip
        assert current_number(client) is not None
        assert any("--switch-anyway was given: 21 of 200" in line for line in said)
        client.close()
