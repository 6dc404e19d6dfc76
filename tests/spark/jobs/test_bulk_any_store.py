"""The bulk job reads and writes any store that the deltalake package knows.

A folder is treated as such a store here: nothing of a run touches it as a disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.pipeline import table_places
from jobs.pipeline.spark_push import push_generation
from jobs.pipeline.table_places import lake_table
from redis_link.connection.client import connect
from redis_link.generation import generation_store
from schemas.entity import PLACED_TABLE, PROBLEMS_TABLE, RELATED_TABLE, RESOLVED_SETS_TABLE
from schemas.language.notation import read_neighborhood
from schemas.membership import MEMBERSHIPS_TABLE
from tests.scenes.bulk_scene import bulk_rows, exact_rows, run_bulk, write_lines, write_world
from tests.servers.redis_content import pairs_in_redis
from tests.servers.redis_server import running_redis
from tests.strategies.drawn_city import drawn_city
from world.lake.lake_tables import LakeTable

pytestmark = pytest.mark.spark

WANTED = [
    read_neighborhood("({1},{road/#},C) • 2(Prev,{road/#},T) • ({2,3},{transport/#},T)"),
    read_neighborhood("({1},{#},NOT DW1.5)"),
    read_neighborhood("({14},{transport/#},T OR DW2.5)"),
]


@pytest.fixture
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_places, "DISKS_AS_DISKS", False)


@pytest.mark.usefixtures("no_disk")
def test_everything_goes_through_the_store(spark: Any, tmp_path: Path) -> None:
    assert not lake_table(spark, str(tmp_path)).on_disk
    city = drawn_city()
    world = write_world(tmp_path / "world", city)
    # A store has no folders; where it is a disk, the deltalake package wants them to be there.
    for name in (RELATED_TABLE, PLACED_TABLE, RESOLVED_SETS_TABLE):
        (Path(world) / name).mkdir()
    for name in (MEMBERSHIPS_TABLE, PROBLEMS_TABLE):
        (tmp_path / "out" / name).mkdir(parents=True)
    lines = write_lines(tmp_path / "s.jsonl", WANTED)
    expected = exact_rows(city, WANTED)
    assert run_bulk(spark, world, lines, tmp_path / "out").related == "computed"
    assert bulk_rows(tmp_path / "out") == expected
    again = run_bulk(spark, world, lines, tmp_path / "out")
    assert (again.related, again.nodes) == ("reused", 0)
    assert bulk_rows(tmp_path / "out") == expected
    with running_redis(tmp_path / "redis") as server:
        table = str(tmp_path / "out" / MEMBERSHIPS_TABLE)
        push_generation(spark, table, 1, server.url, say=lambda _: None)
        client = connect(server.url)
        generation = generation_store.current_number(client)
        assert generation is not None
        assert pairs_in_redis(client, generation) == {(peid, sub) for sub, peid, _ in expected}


def test_keys_that_spark_has_are_handed_on(spark: Any) -> None:
    settings = {
        "spark.hadoop.fs.s3a.access.key": "ann",
        "spark.hadoop.fs.s3a.secret.key": "secret",
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        assert lake_table(spark, "/some/where") == LakeTable("file:///some/where", on_disk=True)
        assert lake_table(spark, "file:/some/where/").uri == "file:///some/where"
        table = lake_table(spark, "s3a://bucket/some/where")
        assert (table.uri, table.on_disk) == ("s3a://bucket/some/where", False)
        assert dict(table.keys) == {
            "AWS_ACCESS_KEY_ID": "ann",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        }
        spark.conf.set("spark.hadoop.fs.defaultFS", "s3a://bucket")
        assert lake_table(spark, "/some/where") == table
    finally:
        for name in (*settings, "spark.hadoop.fs.defaultFS"):
            spark.conf.unset(name)
