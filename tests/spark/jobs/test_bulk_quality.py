"""The bulk run with ``--redis``: its gate, and its change feed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jobs import resolve_neighborhoods
from redis_link.connection.client import connect
from redis_link.generation.generation_store import current_generation
from schemas.errors import EXIT_REFUSED
from schemas.language.notation import read_neighborhood
from schemas.membership import CHANGES_TABLE
from tests.scenes.bulk_scene import bulk_rows, write_lines, write_world
from tests.servers.redis_server import running_redis
from tests.strategies.drawn_city import ENTITIES, drawn_city
from tests.strategies.worlds import table_of

pytestmark = pytest.mark.spark

Command = Callable[..., tuple[int, str]]
NOWHERE = 999
WANTED = [
    read_neighborhood("({1},{road/#},C) • 2(Prev,{road/#},T)"),
    read_neighborhood("({1},{#},NOT DW1.5)"),
    read_neighborhood(f"({{{NOWHERE}}},{{#}},I)"),
]
GONE = 5


@pytest.fixture
def command(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """The command in the session of the tests, which it may not stop."""
    del spark
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    monkeypatch.setenv("SPAPS_QUALITY_COUNTED_FROM", "1")

    def run(*arguments: object, **limits: float) -> tuple[int, str]:
        for name in ("entities_gone", "members_gone", "unresolved"):
            monkeypatch.setenv(f"SPAPS_QUALITY_{name.upper()}", str(limits.get(name, 1.0)))
        code = resolve_neighborhoods.main([str(argument) for argument in arguments])
        return code, capsys.readouterr().err

    return run


def test_nothing_is_switched_when_too_much_is_gone(command: Command, tmp_path: Path) -> None:
    world = write_world(tmp_path / "world", drawn_city())
    lines = write_lines(tmp_path / "s.jsonl", WANTED)
    given = ["--world", world, "--subscriptions", lines, "--out", tmp_path / "out", "--changes"]
    with running_redis(tmp_path / "redis") as server:
        given += ["--redis", server.url]
        client = connect(server.url)
        code, said = command(*given, unresolved=0.3)
        assert code == EXIT_REFUSED
        assert "nothing was switched: 1 of 3 subscriptions are unresolved (33.3%" in said
        assert current_generation(client) is None
        assert command(*given, unresolved=0.34)[0] == 0
        first = current_generation(client)
        write_world(tmp_path / "world", table_of(list(ENTITIES)[:-GONE], 2))
        edge = GONE / len(ENTITIES)
        code, said = command(*given, entities_gone=edge - 0.001)
        assert code == EXIT_REFUSED
        assert f"{GONE} of {len(ENTITIES)} entities of the world would be gone" in said
        assert current_generation(client) == first
        code, said = command(*given, "--switch-anyway", entities_gone=edge - 0.001)
        assert code == 0
        assert "--switch-anyway was given" in said
        switched = current_generation(client)
        assert switched is not None
        assert switched.version == 2
        client.close()
    feed = DeltaTable(str(tmp_path / "out" / CHANGES_TABLE)).to_pyarrow_table().to_pylist()
    left = set()
    for row in sorted(feed, key=lambda row: row["commit"]):
        change = left.add if row["change"] == "added" else left.discard
        change((row["subId"], row["peid"], row["stageNo"]))
    assert sorted(left) == bulk_rows(tmp_path / "out", 2)
