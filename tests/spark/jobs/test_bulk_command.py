"""jobs/resolve_neighborhoods.py as a command: what goes in, what comes out, what it says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jobs import resolve_neighborhoods
from jobs.pipeline import bulk_job
from redis_link.connection.client import connect
from redis_link.connection.embedded import EmbeddedRedis
from redis_link.generation import generation_store
from schemas.language.neighborhood import Neighborhood, neighborhood_hash
from schemas.language.notation import read_neighborhood
from schemas.membership import MEMBERSHIPS_TABLE
from schemas.subscription import Registration
from spatial_udfs.entity_table import EntityTable
from testing.world_writers import entity_rows
from tests.scenes.bulk_scene import bulk_rows, exact_rows, write_world
from tests.scenes.registrations import BROKER, register, unregister
from tests.servers.redis_content import pairs_in_redis
from tests.servers.redis_server import running_redis
from tests.strategies.drawn_city import drawn_city
from world.lake.lake_tables import LakeTable
from world.locks import output_lock
from world.memberships.membership_table import SCHEMA
from world.memberships.run_commits import RunMark, append_run, read_marks
from world.versions.store import WorldStore

pytestmark = pytest.mark.spark

ROADS = read_neighborhood("({1},{road/#},C) • 2(Prev,{road/#},T)")
FAR = read_neighborhood("({1},{#},NOT DW1.5)")
PARKING = read_neighborhood("({14},{transport/#},T OR DW2.5)")

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """The command in the session of the tests, which it may not stop."""
    del spark
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)

    def run(*arguments: object) -> tuple[int, str, str]:
        code = resolve_neighborhoods.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def world(tmp_path: Path) -> str:
    return write_world(tmp_path / "world", drawn_city())


def line(sub_id: int, neighborhood: Neighborhood) -> str:
    return f'{{"subId": {sub_id}, "descriptor": {neighborhood.to_json()}}}'


def assert_refused(result: tuple[int, str, str], *words: str) -> None:
    """Exit code 2, and one line that says why."""
    code, out, err = result
    said = [line for line in err.splitlines() if line.startswith("error:")]
    assert code == 2
    assert out == ""
    assert len(said) == 1
    assert err.splitlines()[-1] == said[0]
    assert "Traceback" not in err
    assert "Exception" not in err
    for word in words:
        assert word in said[0]


def test_bad_lines_stop_nobody_else_and_the_result_is_in_the_embedded_redis(
    command: Command, world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPAPS_REDIS_DATA_DIR", str(tmp_path / "redis"))
    broken = [
        b"{oh no",
        line(1, PARKING).encode(),  # the number of the first line again
        json.dumps({"subId": 3, "descriptor": {"refs": []}}).encode(),
        b'{"subId": 4, "descriptor": "\xff"}',
        b'{"subId": -1, "descriptor": {}}',
    ]
    lines = [line(1, ROADS).encode(), *broken, b"", line(2, FAR).encode()]
    (tmp_path / "s.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    code, out, _ = command(
        "--world", world, "--subscriptions", tmp_path / "s.jsonl", "--out", tmp_path / "out",
        "--redis",
    )  # fmt: skip
    assert code == 0
    expected = exact_rows(drawn_city(), [ROADS, FAR])
    assert bulk_rows(tmp_path / "out") == expected
    for place in (2, 3, 5, 6):
        assert f"unresolved: s.jsonl line {place}: " in out
    assert "subId 1 came before" in out
    assert "unresolved: subId 3: " in out
    assert "2 of 7 subscriptions resolved on world version 1" in out
    with EmbeddedRedis(tmp_path / "redis") as server:
        client = connect(server.url)
        generation = generation_store.current_number(client)
        assert generation is not None
        assert pairs_in_redis(client, generation) == {(peid, sub) for sub, peid, _ in expected}


def test_the_push_is_of_this_run_whatever_another_wrote_meanwhile(
    command: Command, world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run replaces the version between the commit of this one and its push."""
    push = bulk_job.push_generation
    out = tmp_path / "out"
    columns = pa.schema([("subId", pa.int64()), ("peid", pa.int64()), ("stageNo", pa.int32())])

    def overtaken(*arguments: Any, **options: Any) -> Any:
        table = LakeTable((out / MEMBERSHIPS_TABLE).as_uri(), on_disk=True)
        batch = pa.record_batch([[77], [1], pa.array([1], pa.int32())], columns)
        files = table.write(1, None, iter([batch]), columns)
        commit = table.replace_version(1, files, SCHEMA, ["version"], run="another")
        append_run(str(out), RunMark(1, "another", commit, 1))
        return push(*arguments, **options)

    monkeypatch.setattr(bulk_job, "push_generation", overtaken)
    (tmp_path / "s.jsonl").write_text(line(1, ROADS) + "\n")
    with running_redis(tmp_path / "redis") as server:
        code, _, _ = command(
            "--world", world, "--subscriptions", tmp_path / "s.jsonl", "--out", out,
            "--redis", server.url,
        )  # fmt: skip
        assert code == 0
        assert {row[0] for row in bulk_rows(out)} == {77}
        facts = generation_store.current_generation(connect(server.url))
        assert facts is not None
        expected = {(peid, sub) for sub, peid, _ in exact_rows(drawn_city(), [ROADS])}
        assert pairs_in_redis(connect(server.url), facts.generation) == expected
        [mine, _] = read_marks(DeltaTable(str(out / "runs")))
        assert (facts.run, facts.commit) == (mine.run, mine.commit)
        assert facts.world == WorldStore(world).world_id()


def test_nothing_resolved_is_a_failure_and_replaces_nothing(
    command: Command, world: str, tmp_path: Path
) -> None:
    usual = ("--world", world, "--subscriptions", tmp_path / "s.jsonl", "--out", tmp_path / "out")
    (tmp_path / "s.jsonl").write_text(line(1, ROADS) + "\n")
    assert command(*usual)[0] == 0
    before = bulk_rows(tmp_path / "out")
    nowhere = read_neighborhood("({999},{#},C)")
    (tmp_path / "s.jsonl").write_text(f"{line(1, nowhere)}\n{{oh no\n")
    assert_refused(command(*usual), "none of the 2 subscriptions", "999", "out/problems")
    assert bulk_rows(tmp_path / "out") == before
    with output_lock(str(tmp_path / "out"), "the first run"):
        code, _, said = command(*usual)
    assert code == 3
    assert "error: another run writes into" in said
    assert "the first run, process" in said


def test_from_registered_subscriptions_to_sets(
    command: Command, world: str, tmp_path: Path
) -> None:
    with running_redis(tmp_path / "redis") as server:
        client = connect(server.url)

        def registered(client_id: str, nsid: int, wanted: Neighborhood) -> int:
            entry = Registration(
                client_id, nsid, "cars/#", wanted.to_json(), neighborhood_hash(wanted), BROKER
            )
            return register(client, entry)

        ids = [registered("ann", 1, ROADS), registered("ben", 1, FAR), registered("ann", 2, ROADS)]
        gone = registered("ben", 2, FAR)
        unregister(client, "ben", (2,))
        last = registered("eve", 1, PARKING)
        code, out, _ = command(
            "--world", world, "--subscriptions", "redis", "--out", tmp_path / "out",
            "--redis", server.url,
        )  # fmt: skip
        assert code == 0
        assert "4 of 4 subscriptions resolved" in out
        exact = exact_rows(drawn_city(), [ROADS, FAR, ROADS, PARKING])
        sub_ids = [*ids, last]
        expected = {(peid, sub_ids[number - 1]) for number, peid, _ in exact}
        facts = generation_store.current_generation(client)
        assert facts is not None
        assert pairs_in_redis(client, facts.generation) == expected
        assert gone not in {sub_id for _, sub_id in expected}
        # Those who register from now on know that this generation lacks them.
        assert (facts.version, facts.coverage.up_to) == (1, last)
        assert facts.coverage.registry


def test_what_is_not_there_is_said(command: Command, world: str, tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(line(1, ROADS) + "\n")
    usual = ("--subscriptions", tmp_path / "s.jsonl", "--out", tmp_path / "out")
    assert_refused(command("--world", tmp_path / "nowhere", *usual), "no world at", "nowhere")
    assert_refused(command("--world", world, "--version", 7, *usual), "no version 7 (there: 1)")
    absent = ("--subscriptions", tmp_path / "absent.jsonl", "--out", tmp_path / "out")
    assert_refused(command("--world", world, *absent), "no subscriptions at", "absent.jsonl")
    other = ("--subscriptions", f"{world}/versions", "--out", tmp_path / "out")
    assert_refused(command("--world", world, *other), "no table of subscriptions", "subId")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("damage", ["no entities", "some entities lost", "broken geometry"])
def test_a_broken_world_is_one_line(
    damage: str, command: Command, world: str, tmp_path: Path
) -> None:
    (tmp_path / "s.jsonl").write_text(line(1, ROADS) + "\n")
    words = {
        "no entities": "cannot be read",
        "some entities lost": "should have 19 entities, its table has 17",
        "broken geometry": "",
    }
    if damage == "no entities":
        shutil.rmtree(f"{world}/entities")
    elif damage == "some entities lost":
        DeltaTable(f"{world}/entities").delete("peid IN (31, 32)")
    else:
        world = str(tmp_path / "broken")
        rows = with_broken_geometry(drawn_city())
        WorldStore(world).write_version(rows, srid=25833)
    result = command(
        "--world", world, "--subscriptions", tmp_path / "s.jsonl", "--out", tmp_path / "out"
    )
    assert_refused(result, words[damage])
    assert not (tmp_path / "out" / "memberships").exists()


def with_broken_geometry(table: EntityTable) -> pa.Table:
    rows = entity_rows(table)
    place = rows.schema.get_field_index("geometry")
    shapes = [*rows.column("geometry").to_pylist()[:-1], b"\x01\x02\x00"]
    return rows.set_column(place, rows.schema.field(place), pa.array(shapes, pa.binary()))
