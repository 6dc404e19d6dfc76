"""Who owns the durable state: a slow broker keeps it, a stopped or killed one is replaced."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

import pytest

from broker.durability.ownership import Ownership
from redis_link.connection.client import RedisClient
from redis_link.connection.redis_router import RedisRouter
from schemas.errors import JournalError
from schemas.redis_keys import broker_lease_key, journal_key, journal_retained_key
from tests.servers.killable_broker import Client, killable_broker
from tests.servers.redis_server import RedisServer
from tests.servers.running_broker import PROGRAM, until

LEASE_SECONDS = 2.0
# Longer than a standby waits before it gives up.
BLOCKED_SECONDS = 2.5 * LEASE_SECONDS
BLOCKABLE = [sys.executable, "-m", "tests.servers.blockable_broker"]


def claim_as_standby(url: str) -> str:
    """Claim the state of the broker as a second process would; gives the new owner's token."""

    async def claim() -> str:
        router = RedisRouter(url)
        standby = Ownership(router, "broker", lease_seconds=LEASE_SECONDS)
        try:
            await standby.claim()
            await standby.stop_renewing()
        finally:
            router.close()
        return standby.owner_token

    return asyncio.run(claim())


def stand_still(seconds: float) -> None:
    """Keep the event loop from turning."""
    time.sleep(seconds)


def broker_options(server: RedisServer) -> tuple[str, ...]:
    return ("--memberships", "none", "--redis", server.url)


@pytest.fixture(autouse=True)
def _short_lease(monkeypatch: pytest.MonkeyPatch, repository: Path) -> None:
    monkeypatch.setenv("SPAPS_BROKER_LIMITS_LEASE_SECONDS", str(LEASE_SECONDS))
    monkeypatch.setenv("PYTHONPATH", str(repository))


def test_a_broker_whose_loop_is_blocked_keeps_its_state(
    redis_server: RedisServer, redis_client: RedisClient, tmp_path: Path
) -> None:
    command = [*BLOCKABLE, str(BLOCKED_SECONDS), "broker"]
    log = tmp_path / "broker.log"
    options = broker_options(redis_server)
    with killable_broker(tmp_path, *options, command=command) as (port, process):
        process.send_signal(signal.SIGUSR1)
        until(lambda: "blocked" in log.read_text(), "a blocked loop")
        with pytest.raises(JournalError, match=f"process {process.pid} on"):
            claim_as_standby(redis_server.url)
        until(lambda: "goes on" in log.read_text(), "the loop to go on")
        client = Client(port, "client")
        assert client.publish("kept/a", "durable", 1) < 0x80
        client.leave()
        assert redis_client.hexists(journal_retained_key("broker", 0), "kept/a")
        assert "nothing is durable" not in log.read_text()


def test_a_stopped_broker_is_replaced_and_writes_nothing_when_it_wakes(
    redis_server: RedisServer, redis_client: RedisClient, tmp_path: Path
) -> None:
    log = tmp_path / "broker.log"
    options = broker_options(redis_server)
    with killable_broker(tmp_path, *options, command=PROGRAM) as (port, process):
        client = Client(port, "client")
        process.send_signal(signal.SIGSTOP)
        token = claim_as_standby(redis_server.url)
        before = redis_client.dump(journal_key("broker"))
        process.send_signal(signal.SIGCONT)
        until(lambda: "nothing is durable any more" in log.read_text(), "the loss to be said")
        assert client.publish("kept/a", "by memory", 1) < 0x80
        client.leave()
        assert redis_client.hget(journal_key("broker"), "owner") == token.encode()
        assert redis_client.dump(journal_key("broker")) == before


def test_a_killed_broker_is_replaced(redis_server: RedisServer, tmp_path: Path) -> None:
    options = broker_options(redis_server)
    with killable_broker(tmp_path, *options, command=PROGRAM) as (_, process):
        process.kill()
        process.wait()
        claim_as_standby(redis_server.url)


def test_a_loop_that_stands_still_for_too_long_gives_up_its_lease(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    async def run() -> None:
        router = RedisRouter(redis_server.url)
        stuck = Ownership(router, "broker", lease_seconds=0.6, stuck_seconds=1.5)
        try:
            await stuck.claim()
            stand_still(0.9)
            assert redis_client.exists(broker_lease_key("broker")), "only slow"
            stand_still(2.0)
            assert not redis_client.exists(broker_lease_key("broker"))
            stuck.beat()
            until(lambda: bool(redis_client.exists(broker_lease_key("broker"))), "a renewal")
            await stuck.release()
            assert not redis_client.exists(broker_lease_key("broker"))
        finally:
            router.close()

    asyncio.run(run())
