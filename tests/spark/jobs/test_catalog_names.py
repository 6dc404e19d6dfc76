"""Tables that are named by Spark's catalog instead of a path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import push_to_redis, resolve_neighborhoods
from jobs.pipeline.table_places import OUTPUT, WORLD, folder_place, table_place
from redis_link.connection.client import connect
from redis_link.generation.generation_store import current_generation
from schemas.errors import WorldError
from schemas.language.notation import read_neighborhood
from tests.scenes.bulk_scene import bulk_rows, exact_rows, write_world
from tests.servers.redis_content import pairs_in_redis
from tests.servers.redis_server import running_redis
from tests.strategies.drawn_city import drawn_city

pytestmark = pytest.mark.spark

WANTED = [
    read_neighborhood("({1},{road/#},C) • 2(Prev,{road/#},T)"),
    read_neighborhood("({14},{transport/#},T OR DW2.5)"),
]
SCHEMA = "spaps_catalog_test"


@pytest.fixture
def schema(spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """An empty schema of the catalog; no name is a path of the current folder."""
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    monkeypatch.chdir(tmp_path)
    spark.sql(f"CREATE DATABASE {SCHEMA} LOCATION '{tmp_path / 'schema'}'")
    yield f"spark_catalog.{SCHEMA}"
    spark.sql(f"DROP DATABASE {SCHEMA} CASCADE")


def register(spark: Any, name: str, folder: Path) -> None:
    spark.sql(f"CREATE TABLE {SCHEMA}.{name} USING delta LOCATION '{folder}'")


def test_a_run_and_a_push_by_names(spark: Any, schema: str, tmp_path: Path) -> None:
    city, lake = drawn_city(), tmp_path / "somewhere"
    write_world(lake / "world", city)
    rows = [(number, each.to_json()) for number, each in enumerate(WANTED, start=1)]
    frame = spark.createDataFrame(rows, "subId long, descriptor string")
    frame.write.format("delta").saveAsTable(f"{SCHEMA}.wanted")
    for table in WORLD:
        register(spark, table, lake / "world" / table)
    expected = exact_rows(city, WANTED)
    given = ["--world", schema, "--subscriptions", f"{SCHEMA}.wanted"]
    assert resolve_neighborhoods.main([*given, "--out", str(lake)]) == 0
    assert bulk_rows(lake) == expected
    register(spark, "memberships", lake / "memberships")
    assert resolve_neighborhoods.main([*given, "--out", schema]) == 0
    assert len(list((lake / "memberships" / "_delta_log").glob("*.json"))) == 3
    assert bulk_rows(lake) == expected
    assert not (tmp_path / schema).exists()
    for name in (schema, f"{schema}.memberships", f"{SCHEMA}.memberships"):
        with running_redis(tmp_path / f"redis-{name}") as server:
            arguments = ["--memberships", name, "--redis", server.url]
            assert push_to_redis.main(arguments) == 0
            client = connect(server.url)
            facts = current_generation(client)
            assert facts is not None
            pairs = {(peid, sub_id) for sub_id, peid, _ in expected}
            assert pairs_in_redis(client, facts.generation) == pairs
            client.close()


def test_a_path_stays_a_path(spark: Any, schema: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {SCHEMA}.memberships (peid LONG) USING delta")
    for given in ("lake", "some/where.else", "s.jsonl", f"{SCHEMA}.other", "no.such.table", "a.b"):
        assert table_place(spark, given) == given
        assert folder_place(spark, given, OUTPUT) == given
    name = f"{SCHEMA}.memberships"
    assert table_place(spark, name).endswith("/schema/memberships")
    assert folder_place(spark, schema, OUTPUT).endswith("/schema")
    (tmp_path / name).mkdir()
    assert table_place(spark, name) == name


def test_tables_that_do_not_lie_together(spark: Any, schema: str, tmp_path: Path) -> None:
    for place, table in (("a", "entities"), ("b", "versions")):
        folder = tmp_path / place / table
        spark.range(1).write.format("delta").save(str(folder))
        register(spark, table, folder)
    with pytest.raises(WorldError, match="must lie in one folder"):
        folder_place(spark, schema, WORLD)
    register(spark, "memberships", tmp_path / "a" / "entities")
    with pytest.raises(WorldError, match="must lie in a folder memberships"):
        folder_place(spark, schema, OUTPUT)
    spark.sql(f"CREATE TABLE {SCHEMA}.plain (peid LONG) USING parquet")
    with pytest.raises(WorldError, match="plain"):
        table_place(spark, f"{SCHEMA}.plain")
