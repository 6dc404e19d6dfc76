"""``spaps neighborhood`` as a user types it, on a Redis by URL and on that of a world."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from redis_link.connection.client import RedisClient
from redis_link.connection.embedded import EmbeddedRedis
from redis_link.registry import named_neighborhoods
from redis_link.registry.named_neighborhoods import all_names
from schemas.named_neighborhood import MOST_NAMES
from schemas.redis_keys import names_key
from schemas.subscription import Registration
from schemas.world_places import embedded_place
from spaps.cli.command_line import run
from tests.scenes.rebuild_scene import RebuildScene, grid_town
from tests.scenes.registrations import BROKER, forget, register
from tests.servers.redis_server import RedisServer

ROADS_OF_1 = "({1},{road/#},C)"


@pytest.fixture
def scene(
    tmp_path: Path,
    redis_server: RedisServer,
    redis_client: RedisClient,
    monkeypatch: pytest.MonkeyPatch,
) -> RebuildScene:
    monkeypatch.chdir(tmp_path)
    made = RebuildScene(tmp_path, redis_server.url, redis_client)
    made.write_source(grid_town(4))
    assert run(["import", str(made.source), "--world", made.places.world]) == 0
    return made


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command prints, on stderr when it fails."""
    capsys.readouterr()
    assert run(["neighborhood", *arguments]) == code
    printed = capsys.readouterr()
    return printed.err if code else printed.out


def user_of(scene: RebuildScene, name: str) -> int:
    return register(scene.client, Registration("c", 1, "t", "{}", "h", BROKER, name))


def test_users_are_counted_once_however_quick_a_broker_is(
    scene: RebuildScene, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = ("--redis", scene.redis_url, "--world", scene.places.world)
    said(capsys, "add", "old-town", ROADS_OF_1, *here)
    user_of(scene, "old-town")
    add_name = named_neighborhoods.add_name

    def add_and_register(*arguments: Any) -> bool:
        is_new = add_name(*arguments)
        user_of(scene, "old-town")
        return is_new

    monkeypatch.setattr(named_neighborhoods, "add_name", add_and_register)
    text = said(capsys, "add", "old-town", "({1},{shop},C)", *here)
    assert "neighborhood old-town changed, for 1 subscription: 4 entities" in text


def test_add_list_show_and_remove(scene: RebuildScene, capsys: pytest.CaptureFixture[str]) -> None:
    here = ("--redis", scene.redis_url, "--world", scene.places.world)
    text = said(capsys, "add", "old-town", ROADS_OF_1, *here)
    assert text == "neighborhood old-town added: 8 entities in world version 1\n"
    user = user_of(scene, "old-town")
    text = said(capsys, "add", "old-town", "({1},{shop},C)", *here)
    assert "neighborhood old-town changed, for 1 subscription: 4 entities" in text
    said(capsys, "add", "b.2", ROADS_OF_1, *here)
    rows = [json.loads(line) for line in said(capsys, "list", "--json", *here).splitlines()]
    assert [(row["name"], row["members"], row["users"]) for row in rows] == [
        ("b.2", 8, 0), ("old-town", 4, 1),
    ]  # fmt: skip
    assert rows[0]["descriptor"]["refs"] == ["1"]
    table = said(capsys, "list", *here)
    assert "old-town" in table
    assert "({1},{road/#},C)" in "".join(table.split())
    shown = json.loads(said(capsys, "show", "old-town", "--json", *here))
    assert len(shown["peids"]) == 4
    assert all(isinstance(peid, str) for peid in shown["peids"])
    shown_text = said(capsys, "show", "old-town", *here)
    assert "old-town: ({1},{shop},C)" in shown_text
    assert "members: 4 in world version 1" in shown_text
    text = said(capsys, "remove", "old-town", *here, code=2)
    assert "1 subscription uses the neighborhood 'old-town'" in text
    assert "--force" in text
    text = said(capsys, "remove", "old-town", "--force", *here)
    assert text == "neighborhood old-town removed: 1 subscription without members\n"
    forget(scene.client, user)
    assert said(capsys, "remove", "b.2", *here) == "neighborhood b.2 removed\n"
    assert all_names(scene.client) == []


def test_a_redis_without_a_world_is_enough(
    scene: RebuildScene,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Away from the folder with the default world.
    monkeypatch.chdir(scene.folder.parent)
    here = ("--redis", scene.redis_url)
    assert said(capsys, "add", "a", ROADS_OF_1, *here) == "neighborhood a added\n"
    (row,) = [json.loads(line) for line in said(capsys, "list", "--json", *here).splitlines()]
    assert (row["members"], row["version"]) == (None, None)
    assert "unknown" in said(capsys, "show", "a", *here)
    assert "no world" in said(capsys, "list", *here, "--world", "nowhere", code=2)


def test_keys_become_peids_when_a_neighborhood_gets_its_name(
    scene: RebuildScene, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ("--redis", scene.redis_url, "--world", scene.places.world)
    by_key = "({key:1,at:POINT(9 0.1)},{road/#},C)"
    text = said(capsys, "add", "a", by_key, *here)
    assert text == "neighborhood a added: 8 entities in world version 1\n"
    (row,) = [json.loads(line) for line in said(capsys, "list", "--json", *here).splitlines()]
    assert row["descriptor"]["refs"] == ["1", {"at": "POINT(9 0.1)"}]
    assert run(["neighborhood", "add", "a", "({key:1,key:x},{raod/#},C)", *here]) == 0
    warnings = capsys.readouterr().err
    assert "no category of world version 1 matches raod/#; did you mean road/#?" in warnings
    assert "not in world version 1: key:x" in warnings


def test_keys_need_a_world(
    scene: RebuildScene, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scene.folder.parent)
    text = said(capsys, "add", "a", "({key:1},{#},C)", "--redis", scene.redis_url, code=2)
    assert text == (
        "spaps: references by key and by name become peids in a world: give --world DIR\n"
    )
    assert all_names(scene.client) == []


def test_the_embedded_redis_of_a_world(
    scene: RebuildScene, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ("--world", scene.places.world)
    assert said(capsys, "list", "--json", *here) == ""
    assert not embedded_place(scene.places.world).exists()
    said(capsys, "add", "a", ROADS_OF_1, *here)
    (row,) = said(capsys, "list", "--json", *here).splitlines()
    assert json.loads(row)["members"] == 8
    with EmbeddedRedis(embedded_place(scene.places.world)):
        assert said(capsys, "remove", "a", *here) == "neighborhood a removed\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("add", "a b", ROADS_OF_1), "'a b' cannot name a neighborhood; allowed: 1 to 64 letters"),
        (("add", "a", "({1},{road/#},Q)"), "expected"),
        (("add", "a", "({999},{road/#},C)"), "no reference exists in world version 1: 999"),
        (("add", "a", "({key:x},{road/#},C)"), "no reference exists in world version 1: key:x"),
        (("show", "a"), "no neighborhood is named 'a'"),
        (("remove", "a"), "no neighborhood is named 'a'"),
        (("list", "--redis", "none"), "named neighborhoods are kept in Redis"),
    ],
)
def test_what_is_wrong_is_said(
    scene: RebuildScene,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    complaint: str,
) -> None:
    here = ("--redis", scene.redis_url, "--world", scene.places.world)
    assert complaint in said(capsys, arguments[0], *here, *arguments[1:], code=2)
    assert all_names(scene.client) == []


def test_there_are_not_too_many(scene: RebuildScene, capsys: pytest.CaptureFixture[str]) -> None:
    here = ("--redis", scene.redis_url)
    said(capsys, "add", "first", ROADS_OF_1, *here)
    scene.client.hset(names_key(), mapping={f"n{number}": "{}" for number in range(MOST_NAMES - 1)})
    assert "no more are allowed" in said(capsys, "add", "last", ROADS_OF_1, *here, code=2)
    assert "changed" in said(capsys, "add", "first", "({2},{road/#},C)", *here)
