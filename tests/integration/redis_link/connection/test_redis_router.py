"""A router to real servers: every kind of URL, answers in order, and every way to lose Redis."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from redis import Redis

from redis_link.connection.redis_connection import RedisReplyError, pack
from redis_link.connection.redis_router import RedisRouter
from redis_link.connection.url import parse_redis_url
from schemas.errors import RedisLinkError, SettingsError
from tests.servers.redis_server import (
    RedisServer,
    cluster_url,
    make_certificates,
    running_cluster,
    running_redis,
    running_sentinel,
    wait_for,
)


def on_router(
    url: str, work: Callable[[RedisRouter], Coroutine[Any, Any, Any]], **options: Any
) -> Any:
    """What the work gives, in an event loop of its own."""

    async def run() -> Any:
        router = RedisRouter(parse_redis_url(url, {}), **options)
        try:
            return await work(router)
        finally:
            router.close()

    return asyncio.run(run())


async def set_and_get(router: RedisRouter) -> bytes:
    await router.ask("a", "SET", "a", b"\x00\r\n\xff")
    answer: bytes = await router.ask("a", "GET", "a")
    return answer


def test_answers_come_in_order_and_errors_among_them(redis_server: RedisServer) -> None:
    async def work(router: RedisRouter) -> None:
        connection = await router.of_key("k")
        first = connection.send(
            pack("SET", "k", 1) + pack("LPUSH", "k", "x") + pack("INCR", "k"), 3
        )
        second = connection.send(pack("GET", "k"), 1)
        answers = await first
        assert answers[0] == b"OK"
        assert isinstance(answers[1], RedisReplyError)
        assert answers[1].code == "WRONGTYPE"
        assert answers[2] == 2
        assert await second == [b"2"]
        with pytest.raises(RedisReplyError, match="WRONGTYPE"):
            await connection.ask("LPUSH", "k", "x")
        assert connection.is_open

    on_router(redis_server.url, work)


def test_an_answer_in_many_pieces(redis_server: RedisServer) -> None:
    value = bytes(range(256)) * 20_000

    async def work(router: RedisRouter) -> None:
        connection = await router.of_key("k")
        await connection.ask("SET", "k", value)
        answers = await connection.send(pack("GET", "k") * 3, 3)
        assert answers == [value] * 3

    on_router(redis_server.url, work)


def test_who_gave_up_does_not_disturb_the_next(redis_server: RedisServer) -> None:
    async def work(router: RedisRouter) -> None:
        connection = await router.of_key("k")
        connection.send(pack("ECHO", "unwanted"), 1).cancel()
        assert await connection.ask("ECHO", "wanted") == b"wanted"

    on_router(redis_server.url, work)


def test_a_master_that_became_a_replica_is_left(redis_server: RedisServer) -> None:
    async def work(router: RedisRouter) -> None:
        await router.ask("a", "REPLICAOF", "127.0.0.1", "1")
        connection = await router.of_key("a")
        with pytest.raises(RedisReplyError, match="READONLY"):
            await router.ask("a", "SET", "a", 1)
        assert not connection.is_open, "the next one is looked for anew"
        await router.ask("a", "REPLICAOF", "NO", "ONE")
        assert await set_and_get(router) == b"\x00\r\n\xff"

    on_router(redis_server.url, work)


def test_socket_file_password_and_database(tmp_path: Path) -> None:
    path, plain = tmp_path / "s", "p@ss word"
    options = ("--unixsocket", str(path), "--requirepass", plain)
    with running_redis(tmp_path / "server", *options) as server:
        secret = quote(plain)
        assert on_router(f"unix://:{secret}@{path}?db=3", set_and_get) == b"\x00\r\n\xff"
        url = f"redis://:{secret}@127.0.0.1:{server.port}/3"
        assert on_router(url, lambda router: router.ask("a", "GET", "a")) == b"\x00\r\n\xff"
        with pytest.raises(RedisLinkError, match="WRONGPASS"):
            on_router(f"redis://:wrong@127.0.0.1:{server.port}", set_and_get)
        with pytest.raises(RedisLinkError, match="NOAUTH"):
            on_router(f"redis://127.0.0.1:{server.port}", set_and_get)


def test_tls_checks_the_certificate(tmp_path: Path, program: Callable[[str], Path]) -> None:
    made = make_certificates(tmp_path / "certificates", program("openssl"))
    with running_redis(tmp_path / "plain") as unused:
        port = unused.port
    files = ("--tls-cert-file", made.certificate, "--tls-key-file", made.key)
    options = (*files, "--tls-ca-cert-file", made.authority, "--tls-auth-clients", "no")
    arguments = ("--tls-port", str(port), *map(str, options))
    with running_redis(tmp_path / "server", *arguments):
        url = f"rediss://127.0.0.1:{port}"
        assert on_router(f"{url}?ca={made.authority}", set_and_get) == b"\x00\r\n\xff"
        with pytest.raises(RedisLinkError, match="CERTIFICATE_VERIFY_FAILED"):
            on_router(url, set_and_get)
        with pytest.raises(SettingsError, match="certificate files"):
            on_router(f"{url}?ca={tmp_path / 'none'}", set_and_get)


def test_sentinel_leads_to_the_master_also_after_a_failover(tmp_path: Path) -> None:
    with (
        running_redis(tmp_path / "one") as master,
        running_redis(tmp_path / "two", "--replicaof", "127.0.0.1", str(master.port)) as replica,
        running_sentinel(tmp_path / "sentinel", "ours", master) as port,
        Redis(port=replica.port) as other,
    ):
        url = f"redis+sentinel://127.0.0.1:1,127.0.0.1:{port}/ours"
        wait_for(lambda: _role(other) == "slave" and _link(other) == "up", "the replica")

        async def work(router: RedisRouter) -> None:
            assert await set_and_get(router) == b"\x00\r\n\xff"
            await asyncio.to_thread(wait_for, lambda: _replicas(port) == 1, "Sentinel's view")
            master.kill()
            with pytest.raises(RedisLinkError):
                await set_and_get(router)
            await asyncio.to_thread(wait_for, lambda: _role(other) == "master", "a new master")
            await _until_served(router)

        on_router(url, work)


def _role(client: Redis) -> str:
    return str(client.info("replication")["role"])


def _link(client: Redis) -> str:
    return str(client.info("replication").get("master_link_status"))


def _replicas(port: int) -> int:
    with Redis(port=port) as sentinel:
        return int(sentinel.sentinel_master("ours")["num-slaves"])


async def _until_served(router: RedisRouter) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await set_and_get(router)
            except RedisLinkError:
                await asyncio.sleep(0.05)
            else:
                return


def test_cluster_finds_each_key_and_follows_a_moved_slot(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as servers:

        async def work(router: RedisRouter) -> None:
            for number in range(50):
                key = f"key{number}"
                await router.ask(key, "SET", key, number)
            for number in range(50):
                assert await router.ask(f"key{number}", "GET", f"key{number}") == b"%d" % number
            await asyncio.to_thread(_move_empty_slot, servers, "unused")
            with pytest.raises(RedisReplyError, match="MOVED"):
                await router.ask("unused", "SET", "unused", 1)
            assert await router.ask("unused", "SET", "unused", 1) == b"OK"

        on_router(cluster_url(servers), work)


def _move_empty_slot(servers: list[RedisServer], key: str) -> None:
    """Give the slot of a key that does not exist to another node."""
    clients = [Redis(port=server.port) for server in servers]
    slot = clients[0].execute_command("CLUSTER", "KEYSLOT", key)
    names = [client.execute_command("CLUSTER", "MYID").decode() for client in clients]
    holder = slot * len(servers) // 16_384
    target = names[(holder + 1) % len(servers)]
    # The new holder first: from it the others learn.
    for client in [clients[(holder + 1) % len(servers)], *clients]:
        client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", target)
    for client in clients:
        client.close()


def test_a_stopped_server_fails_after_its_time_and_comes_back(tmp_path: Path) -> None:
    with running_redis(tmp_path) as server:

        async def work(router: RedisRouter) -> None:
            await set_and_get(router)
            server.process.send_signal(signal.SIGSTOP)
            with pytest.raises(RedisLinkError, match=r"no answer for 0\.2 s"):
                await set_and_get(router)
            server.process.send_signal(signal.SIGCONT)
            await _until_served(router)
            server.kill()
            with pytest.raises(RedisLinkError):
                await set_and_get(router)
            await asyncio.to_thread(server.restart)
            await _until_served(router)

        on_router(server.url, work, answer_seconds=0.2)


def test_notices_of_a_channel(tmp_path: Path) -> None:
    async def hear(router: RedisRouter, port: int) -> None:
        heard = asyncio.Event()
        connection = await router.listen("news", heard.set)
        with Redis(port=port) as client:
            client.publish("other news", "x")
            client.publish("news", "x")
        async with asyncio.timeout(30):
            await heard.wait()
        connection.close()

    with running_redis(tmp_path / "one") as server:
        on_router(server.url, lambda router: hear(router, server.port))
    with running_cluster(tmp_path / "cluster") as servers:
        on_router(cluster_url(servers), lambda router: hear(router, servers[-1].port))


def test_a_server_that_is_no_redis() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")

    async def run() -> None:
        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            router = RedisRouter(f"redis://127.0.0.1:{port}")
            with pytest.raises(RedisLinkError, match="does not speak Redis' protocol"):
                await router.ask("a", "GET", "a")
            router.close()

    asyncio.run(run())
