"""The commands: what they print, their exit codes, and that a dry run changes nothing."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import rebuild as rebuild_job
from rebuild.record import RebuildRecords
from redis_link.connection.client import RedisClient
from spaps.cli.command_line import run
from spaps.cli.rebuild_schedule import ONE_COMMAND
from tests.conftest import REPOSITORY
from tests.scenes.rebuild_scene import NEIGHBORHOODS, RebuildScene, grid_town
from tests.servers.redis_server import RedisServer

BUSY = 3


@pytest.fixture
def scene(
    tmp_path: Path,
    redis_server: RedisServer,
    redis_client: RedisClient,
    monkeypatch: pytest.MonkeyPatch,
) -> RebuildScene:
    """Settings come from the environment, as a service would have them."""
    made = RebuildScene(tmp_path, redis_server.url, redis_client)
    made.write_source(grid_town(4))
    made.subscribe(NEIGHBORHOODS)
    for name, value in {
        "WORLD_DIR": made.places.world,
        "REDIS_URL": redis_server.url,
        "REBUILD_OUT": made.places.out,
        "REBUILD_RECORDS": str(made.places.records),
        "REBUILD_SOURCES": str(made.source),
        "REBUILD_GRACE_SECONDS": "0",
    }.items():
        monkeypatch.setenv(f"SPAPS_{name}", value)
    return made


def change_source(scene: RebuildScene) -> None:
    town = grid_town(4)
    del town[2]
    town[10] = (["shop"], town[10][1])
    scene.write_source(town)


def state_of(scene: RebuildScene) -> tuple[dict[str, str], dict[bytes, bytes]]:
    """Every file and every key, by its content."""
    files = {
        str(path.relative_to(scene.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(scene.folder.rglob("*"))
        if path.is_file()
    }
    keys = {key: scene.client.dump(key) for key in scene.client.scan_iter(count=1000)}
    return files, keys  # type: ignore[return-value]


def test_rebuild_rollback_versions(scene: RebuildScene, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rebuild"]) == 0
    assert "world version 1 is in force as generation 1" in capsys.readouterr().out
    change_source(scene)
    assert run(["rebuild", "--engine", "exact", "--keep-versions", "3"]) == 0
    scene.assert_in_force(2)
    capsys.readouterr()
    assert run(["versions"]) == 0
    shown = capsys.readouterr().out
    # On a narrow terminal the changes stand on two lines.
    assert "1 removed" in shown
    assert "recategorised" in shown
    [row] = [line for line in shown.splitlines() if line.rstrip().endswith("yes")]
    assert row.split()[0] == "2"
    assert run(["rollback"]) == 0
    scene.assert_in_force(1)
    assert run(["rebuild", "--if-changed"]) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_a_dry_run_tells_and_changes_nothing(
    scene: RebuildScene, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["rebuild"]) == 0
    before = scene.pairs_in_force()
    change_source(scene)
    state = state_of(scene)
    capsys.readouterr()
    assert run(["rebuild", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert state_of(scene) == state
    assert "against version 1: 1 removed, 1 recategorised" in shown
    assert "1 references vanish: 2" in shown
    assert run(["rebuild"]) == 0
    after = scene.pairs_in_force()
    gained, lost = after - before, before - after
    assert (
        f"{len({s for _, s in gained}):,} gain {len(gained):,} members, "
        f"{len({s for _, s in lost}):,} lose {len(lost):,}; 1 have no reference then"
    ) in shown


def test_a_first_dry_run(scene: RebuildScene, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rebuild", "--dry-run"]) == 0
    assert "the first version of the world" in capsys.readouterr().out
    assert not Path(scene.places.world).exists()


def test_exit_codes(scene: RebuildScene, capsys: pytest.CaptureFixture[str]) -> None:
    with RebuildRecords(scene.places.records).exclusive():
        assert run(["rebuild"]) == BUSY
        assert rebuild_job.main([]) == BUSY
    assert "another rebuild runs: process " in capsys.readouterr().err
    assert run(["rebuild", str(scene.folder / "absent.parquet")]) == 2
    assert run(["rebuild", "--engine", "magic"]) == 2
    assert run(["rebuild", "--cron", "every night"]) == 2
    assert run(["rollback"]) == 2
    assert rebuild_job.main(["--engine", "exact"]) == 0
    scene.assert_in_force(1)
    with RebuildRecords(scene.places.records).exclusive():
        assert run(["rollback", "1"]) == BUSY


def test_the_service_ends_when_it_is_told_to(scene: RebuildScene) -> None:
    arguments = ["rebuild", str(scene.source), "--cron", "0 3 1 1 *"]
    with subprocess.Popen(
        [sys.executable, "-c", ONE_COMMAND, *arguments],
        stderr=subprocess.PIPE, text=True, cwd=REPOSITORY,
    ) as service:  # fmt: skip
        assert service.stderr is not None
        assert "the next at" in service.stderr.readline()
        service.send_signal(signal.SIGTERM)
        assert service.wait(120) == 0
