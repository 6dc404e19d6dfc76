"""Backup and restore as docs/operations.md has them: stop, copy, start elsewhere, nothing lost."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from spaps.cli.command_line import run
from testing.world_writers import write_geoparquet
from tests.scenes.surroundings import Surroundings
from tests.servers.killable_broker import Client, check_all_is_in_force
from tests.servers.redis_server import require_redis_server
from tests.servers.running_broker import running_broker
from world.snapshot import load_snapshot

# For running_broker: the embedded Redis, inside the folder of the world.
OPTIONS = ("--redis", "", "--allow-anonymous", "--http", "0")


def settings_of(place: Path) -> str:
    """The settings of a broker whose whole state is in one folder."""
    return f"""
    [world]
    dir = "{place}/world"
    [rebuild]
    sources = ["{place}/sources/city.parquet"]
    out = "{place}/lake"
    records = "{place}/rebuilds"
    grace_seconds = 0
    """


def rebuild(place: Path, *options: str) -> int:
    config = place.parent / f"{place.name}.toml"
    config.write_text(settings_of(place))
    return run(["rebuild", "--config", str(config), *options])


def test_stop_copy_start_elsewhere_nothing_lost(
    tmp_path: Path, city: Path, surroundings: Surroundings, repository: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    require_redis_server()
    first, second = tmp_path / "first/spaps", tmp_path / "second/spaps"
    (first / "sources").mkdir(parents=True)
    write_geoparquet(load_snapshot(str(city)), first / "sources/city.parquet")
    assert rebuild(first) == 0
    with running_broker(tmp_path / "a", *OPTIONS, config=settings_of(first)) as broker:
        subscriber = Client(broker.port, "subscriber")
        subscriber.subscribe("plain/#", 2)
        subscriber.subscribe("near/#", 1, ("neighborhood", surroundings.descriptor), ("nsid", "7"))
        subscriber.leave()
        publisher = Client(broker.port, "publisher")
        for number in range(10):
            assert publisher.publish(f"plain/{number}", str(number), 1 + number % 2) < 0x80
        assert publisher.publish("near/a", "inside", 1, surroundings.inside) == 0
        publisher.publish("kept/a", "retained", 2)
        publisher.leave()
    # One generation holds the neighborhood, and another subscription is newer than it.
    assert rebuild(first, "--full") == 0
    with running_broker(tmp_path / "b", *OPTIONS, config=settings_of(first)) as broker:
        late = Client(broker.port, "late")
        late.subscribe("near/#", 1, ("neighborhood", surroundings.descriptor))
        late.leave()
        before = broker.health()
    archive = tmp_path / "backup.tar"
    for command in commands_of_the_page(repository):
        places = {"/var/lib/spaps": str(first), "/backup/spaps.tar": str(archive)}
        if "-xf" in command:
            # The machine is gone, and another one has another folder.
            shutil.rmtree(first.parent)
            second.mkdir(parents=True)
            places["/var/lib/spaps"] = str(second)
        subprocess.run([places.get(word, word) for word in command], check=True)
    with running_broker(tmp_path / "c", *OPTIONS, config=settings_of(second)) as broker:
        after = broker.health()
        for fact in ("status", "world_version", "generation", "sessions", "problems"):
            assert after[fact] == before[fact], fact
        assert after["generation"] == 2
        assert broker.metric("spaps_neighborhoods") == 2
        subscriber = Client(broker.port, "subscriber")
        assert subscriber.is_resumed
        assert sorted(subscriber.receive(11)) == [*map(str, range(10)), "inside"]
        check_all_is_in_force(broker.port, subscriber, surroundings)
        late = Client(broker.port, "late")
        assert late.is_resumed
        assert late.receive(1) == ["inside again"]
        late.client.loop_stop()
    capsys.readouterr()
    assert rebuild(second, "--if-changed") == 0
    records = [json.loads(path.read_text()) for path in second.glob("rebuilds/*/record.json")]
    assert len(records) >= 2, "the rebuilds before the copy are known"


def commands_of_the_page(repository: Path) -> list[list[str]]:
    """The two tar commands of the section on backups, in words."""
    page = (repository / "docs/operations.md").read_text("utf-8")
    section = page[page.index("\n## Backup") :].partition("\n## Upgrade")[0]
    commands = [line.split() for line in re.findall(r"^tar .*$", section, re.MULTILINE)]
    assert len(commands) == 2
    return commands
