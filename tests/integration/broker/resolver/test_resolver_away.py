"""A broker whose resolver does not answer when it starts: nothing is silently empty or missed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from broker.resolver.live_resolver import LiveResolver
from broker.shell.service import BrokerService
from schemas.settings import load_settings
from tests.scenes.surroundings import Surroundings
from tests.servers.killable_broker import Client, killable_broker
from tests.servers.redis_server import RedisServer
from tests.servers.running_broker import COMMAND, PATIENCE
from tests.servers.running_broker import until as wait_until

NEIGHBORHOODS = 40
REFUSED, DELIVERED, NOBODY = 0x80, 0, 16


@pytest.mark.parametrize("mode", ["memory", "redis"])
def test_neighborhoods_wait_for_a_resolver_that_is_away_at_the_start(
    tmp_path: Path,
    city: Path,
    surroundings: Surroundings,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    options = ("--world", str(city), "--redis", redis_server.url, "--memberships", mode)
    with killable_broker(tmp_path, *options) as (port, _):
        subscriber = Client(port, "subscriber")
        for nsid in range(NEIGHBORHOODS):
            # Each has to be asked for: the texts differ.
            descriptor = json.dumps({"name": str(nsid), **json.loads(surroundings.descriptor)})
            pairs = ("neighborhood", descriptor), ("nsid", str(nsid))
            subscriber.subscribe("near/#", 1, *pairs)
        subscriber.leave()
    pids = stop_when_started(monkeypatch)
    asyncio.run(restart(city, redis_server, mode, surroundings, pids))


def stop_when_started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have each resolver process stand still from the moment it has loaded its world."""
    pids: list[int] = []
    start = LiveResolver.start

    async def start_and_stop(self: LiveResolver, version: int | None = None) -> None:
        await start(self, version)
        assert self._present is not None
        pids.append(self._present._supervisor.process._process._process.pid)
        os.kill(pids[-1], signal.SIGSTOP)

    monkeypatch.setattr(LiveResolver, "start", start_and_stop)
    return pids


async def restart(
    city: Path, redis: RedisServer, mode: str, surroundings: Surroundings, pids: list[int]
) -> None:
    service = BrokerService(
        load_settings(
            options={
                "world.dir": str(city),
                "redis.url": redis.url,
                "broker.memberships": mode,
                "broker.listen": "127.0.0.1:0",
                "broker.http": "127.0.0.1:0",
                "broker.allow_anonymous": True,
                "broker.limits": {"restore_seconds": 1.0},
            },
            environment={},
        )
    )
    starting = asyncio.create_task(service.start())
    await until(lambda: waiting(service) == ("starting", NEIGHBORHOODS))
    bound = dict(await starting)
    try:
        assert waiting(service) == ("degraded", NEIGHBORHOODS)
        page = await asyncio.to_thread(health_page, bound["http"].port)
        [problem] = page["problems"]
        assert problem.startswith(f"{NEIGHBORHOODS} neighborhoods wait for the resolver: ")
        clients = await asyncio.to_thread(refuse, bound["default"].port, surroundings)
        os.kill(pids[-1], signal.SIGCONT)
        await until(lambda: waiting(service) == ("ok", 0))
        await asyncio.to_thread(deliver, *clients, surroundings)
    finally:
        os.kill(pids[-1], signal.SIGCONT)
        await service.stop()


def waiting(service: BrokerService) -> tuple[Any, Any]:
    health = service.health()
    return health["status"], health["neighborhoods_waiting"]


def refuse(port: int, surroundings: Surroundings) -> tuple[Client, Client]:
    """Nothing is acknowledged that would be missed; everything else goes on."""
    subscriber, publisher = Client(port, "subscriber"), Client(port, "publisher")
    assert subscriber.is_resumed
    assert publisher.publish("near/a", "missed?", 1, surroundings.inside) == REFUSED
    assert publisher.publish("far/a", "elsewhere", 1, surroundings.inside) == NOBODY
    assert publisher.publish("near/a", "no entity", 1) == NOBODY
    return subscriber, publisher


def deliver(subscriber: Client, publisher: Client, surroundings: Surroundings) -> None:
    assert publisher.publish("near/a", "outside", 1, surroundings.outside) == NOBODY
    assert publisher.publish("near/a", "inside", 1, surroundings.inside) == DELIVERED
    message = subscriber.messages.get(timeout=PATIENCE)
    assert message.payload == b"inside"
    assert message.properties is not None
    nsids = {value for name, value in message.properties.UserProperty if name == "nsid"}
    assert nsids == {str(nsid) for nsid in range(NEIGHBORHOODS)}
    for client in (subscriber, publisher):
        client.leave()


def health_page(port: int) -> dict[str, Any]:
    with pytest.raises(HTTPError) as caught, urlopen(f"http://127.0.0.1:{port}/health", timeout=30):
        pass
    assert caught.value.code == 503
    content: dict[str, Any] = json.loads(caught.value.read())
    return content


def test_a_start_that_waits_says_so_and_can_be_ended(tmp_path: Path, city: Path) -> None:
    """The resolver process stands still before it has loaded the world."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        http = probe.getsockname()[1]
    options = ["--listen", "127.0.0.1:0", "--http", f"127.0.0.1:{http}", "--world", str(city)]
    with (tmp_path / "log").open("w") as log:
        command = [*COMMAND, *options, "--allow-anonymous"]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
    try:
        wait_until(lambda: bool(resolvers_of(process.pid)), "the resolver process")
        for child in resolvers_of(process.pid):
            os.kill(child, signal.SIGSTOP)
        wait_until(lambda: status_of(http) == "starting", "a health page")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert "stops before it has started" in (tmp_path / "log").read_text()
    finally:
        process.kill()
        process.wait()


def resolvers_of(pid: int) -> list[int]:
    """Its resolver processes; a child that is just forked would hold up the broker if stopped."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        int(one)
        for one in children
        if b"resolver_worker" in Path(f"/proc/{one}/cmdline").read_bytes()
    ]


def status_of(port: int) -> str | None:
    try:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=30):
            return None
    except HTTPError as error:
        return str(json.loads(error.read())["status"])
    except OSError:
        return None


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110 - the state of the broker is what is looked at
            await asyncio.sleep(0.02)
