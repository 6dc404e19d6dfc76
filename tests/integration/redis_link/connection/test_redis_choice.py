"""The embedded Redis belongs to its world, and commands that only read make nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from redis import Redis

from redis_link.connection.client import connect
from redis_link.connection.embedded import EmbeddedRedis
from redis_link.connection.redis_choice import redis_or_embedded, redis_to_read
from schemas.errors import SettingsError
from schemas.settings import Settings, load_settings
from schemas.world_places import embedded_place
from spaps.cli.command_line import run
from tests.scenes.rebuild_scene import RebuildScene, grid_town
from tests.servers.killable_broker import killable_broker
from tests.servers.redis_server import wait_for
from tests.servers.running_broker import PROGRAM


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPAPS_REDIS_URL", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def settings_of(world: object, **options: object) -> Settings:
    return load_settings(options={"world.dir": str(world), **options}, environment={})


def put(settings: Settings, value: str) -> None:
    with redis_or_embedded(settings) as url, connect(url) as client:
        client.set("mark", value)


def found(settings: Settings) -> bytes | None:
    with redis_or_embedded(settings) as url, connect(url) as client:
        value: bytes | None = client.get("mark")
        return value


def everything_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_commands_started_in_different_folders_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "worlds").mkdir()
    put(settings_of(tmp_path / "worlds" / "one"), "of one")
    monkeypatch.chdir(tmp_path / "worlds")
    assert found(settings_of("one")) == b"of one"
    assert found(settings_of("./one/")) == b"of one"
    (tmp_path / "link").symlink_to(tmp_path / "worlds" / "one")
    assert found(settings_of(f"file://{tmp_path}/link")) == b"of one"
    assert found(settings_of("another")) is None
    assert list((tmp_path / "here").iterdir()) == []


def test_a_folder_that_is_set_is_used(tmp_path: Path) -> None:
    chosen = {"redis.data_dir": str(tmp_path / "chosen")}
    put(settings_of(tmp_path / "one", **chosen), "shared")
    assert found(settings_of(tmp_path / "two", **chosen)) == b"shared"
    assert not (tmp_path / "one").exists()


def test_a_url_that_is_set_is_used(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "one", **{"redis.url": "redis://elsewhere"})
    with redis_or_embedded(settings) as url, redis_to_read(settings) as read:
        assert (url, read) == ("redis://elsewhere", "redis://elsewhere")
    with redis_to_read(settings_of(tmp_path / "one", **{"redis.url": "none"})) as url:
        assert url is None
    assert not (tmp_path / "one").exists()


def test_a_world_in_an_object_store_has_its_redis_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    put(settings_of("s3://bucket/one"), "of one")
    assert found(settings_of("s3://bucket/one/")) == b"of one"
    assert found(settings_of("s3://bucket/two")) is None
    monkeypatch.delenv("XDG_STATE_HOME")
    assert embedded_place("s3://bucket/one").is_relative_to(Path.home() / ".local" / "state")


def earlier_redis(folder: Path) -> None:
    with EmbeddedRedis(folder) as server, Redis.from_url(server.url) as client:
        client.set("mark", "of an earlier release")


def test_the_redis_of_an_earlier_release_moves_into_its_world(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = tmp_path / "lake"
    earlier_redis(lake / "redis")
    with redis_to_read(settings_of(lake / "world")) as url:
        assert url is not None
        assert connect(url).get("mark") == b"of an earlier release"
    assert not (lake / "world").exists()
    assert found(settings_of(lake / "world")) == b"of an earlier release"
    assert not (lake / "redis").exists()
    assert f"moved to {lake}/world/redis" in caplog.text
    # The next world beside it begins with nothing.
    assert found(settings_of(lake / "other")) is None


def test_one_that_is_in_use_stays(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    earlier_redis(lake / "redis")
    with (
        EmbeddedRedis(lake / "redis"),
        pytest.raises(SettingsError, match="it is in use: stop its broker"),
    ):
        put(settings_of(lake / "world"), "x")
    assert found(settings_of(lake / "world")) == b"of an earlier release"


def test_one_of_the_current_folder_is_named(caplog: pytest.LogCaptureFixture) -> None:
    earlier_redis(Path("lake/redis"))
    world = Path("..", "elsewhere", "world")
    put(settings_of(world), "new")
    assert f"move it to {world.resolve()}/redis" in caplog.text
    assert Path("lake/redis").is_dir()


READING: list[tuple[str, list[str], int]] = [
    ("no world", ["versions"], 1),
    ("no world", ["rollback"], 1),
    ("no world", ["rollback", "3"], 1),
    ("no world", ["resolve", "({1},{road/#},C)"], 1),
    ("no world", ["broker", "--listen", "127.0.0.1:0"], 1),
    ("world", ["versions"], 0),
    ("world", ["rollback"], 1),
    ("world", ["rollback", "3"], 1),
    ("world", ["resolve", "({1},{road/#},C)"], 0),
    ("world", ["rebuild", "--dry-run"], 0),
]


EXPECTED = ("no world at", "nothing to roll back", "no version")


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world with one version, and its source beside it."""
    folder = tmp_path_factory.mktemp("town")
    scene = RebuildScene(folder, "", None)  # type: ignore[arg-type]  # no Redis is asked
    scene.write_source(grid_town())
    assert run(["import", str(scene.source), "--world", str(folder / "world")]) == 0
    return folder


@pytest.mark.parametrize(("where", "command", "code"), READING)
def test_reading_makes_nothing(
    where: str,
    command: list[str],
    code: int,
    tmp_path: Path,
    town: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if where == "world":
        shutil.copytree(town, tmp_path / "data")
    before = everything_in(tmp_path)
    assert (run([*command, "--world", str(tmp_path / "data" / "world")]) != 0) == (code != 0)
    assert everything_in(tmp_path) == before
    if code:
        said = capfd.readouterr().err.strip().splitlines()
        assert len(said) == 1, said
        assert (
            "no world at" in said[0] or "nothing to roll back" in said[0] or "no version" in said[0]
        )


@pytest.mark.parametrize(
    "command", [["check", "({1},{road/#},C)"], ["top", "--http", "127.0.0.1:1"]]
)
def test_commands_without_a_world_make_nothing(command: list[str], tmp_path: Path) -> None:
    before = everything_in(tmp_path)
    run(command)
    assert everything_in(tmp_path) == before


def test_a_rebuild_in_one_folder_reaches_the_broker_of_another(tmp_path: Path, town: Path) -> None:
    shutil.copytree(town, tmp_path / "data")
    world = ("--world", str(tmp_path / "data" / "world"))
    (tmp_path / "there").mkdir()
    log = tmp_path / "there" / "broker.log"
    with killable_broker(tmp_path / "there", *world, command=PROGRAM) as (_, process):
        assert run(["rebuild", *world, "--grace", "0"]) == 0
        wait_for(lambda: "generation 1 of world version 1 in force" in log.read_text(), "it")
        process.terminate()
        process.wait()
    assert {path.name for path in (tmp_path / "there").iterdir()} == {"broker.log"}
