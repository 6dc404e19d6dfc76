"""Servers, a city and certificates that tests of this folder share; each test finds Redis empty."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

from redis_link.connection.client import RedisClient, connect
from schemas.language.notation import read_neighborhood
from spatial_udfs.exact.exact_resolver import ExactResolver
from testing.synthetic_city import SRID, synthetic_city
from testing.world_writers import entity_rows
from tests.scenes.surroundings import Surroundings
from tests.servers.certificates import Certificates
from tests.servers.redis_server import RedisServer, running_redis
from tests.servers.running_broker import RunningBroker, running_broker
from world.snapshot import load_snapshot
from world.versions.store import WorldStore


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One plain server for all tests that do not stop or configure it."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_server(shared_redis: RedisServer) -> RedisServer:
    """The shared server, emptied."""
    with Redis(port=shared_redis.port) as client:
        client.flushall()
    return shared_redis


@pytest.fixture
def redis_client(redis_server: RedisServer) -> Iterator[RedisClient]:
    """A client of the emptied server, as the project makes it."""
    client = connect(redis_server.url)
    yield client
    client.close()


@pytest.fixture(scope="session")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world of two versions: 600 entities, then 300 of another seed."""
    folder = tmp_path_factory.mktemp("city")
    store = WorldStore(str(folder))
    for entities, seed in ((600, 1), (300, 2)):
        store.write_version(entity_rows(synthetic_city(entities, seed)), srid=SRID)
    return folder


@pytest.fixture(scope="session")
def certificates(
    program: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Certificates:
    """Certificates for 127.0.0.1, made as a user would make them."""
    folder = tmp_path_factory.mktemp("certificates")
    openssl = program("openssl")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test CA",
        "-keyout", "ca.key", "-out", "ca.pem")  # fmt: skip
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name in ("server", "client"):
        run("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2",
            "-CAcreateserial", "-extfile", "names", "-out", f"{name}.pem")  # fmt: skip
    return Certificates(
        folder / "ca.pem", folder / "server.pem", folder / "server.key",
        folder / "client.pem", folder / "client.key",
    )  # fmt: skip


@pytest.fixture(scope="session")
def open_broker(city: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker with the newest version of the city, open to anybody on this machine."""
    config = """
    [broker.listeners.web]
    type = "ws"
    bind = "127.0.0.1:0"
    """
    arguments = ("--world", str(city), "--allow-anonymous", "--http", "127.0.0.1:0")
    with running_broker(tmp_path_factory.mktemp("open"), *arguments, config=config) as broker:
        yield broker


@pytest.fixture(scope="session")
def surroundings(city: Path) -> Surroundings:
    """Three roads in a row, from the first road of the newest version."""
    table = load_snapshot(str(city))
    road = next(
        int(peid)
        for at, peid in enumerate(table.peids)
        if any(category.startswith("road/") for category in table.categories_at(at))
    )
    descriptor = json.dumps(
        {
            "refs": [road],
            "stages": [
                {"cats": ["road/#"], "cond": "T"},
                {"refStages": "Prev", "cats": ["road/#"], "cond": "T", "repeat": 2},
            ],
        }
    )
    members = ExactResolver(table).resolve(read_neighborhood(descriptor)).peids()
    outside = next(int(peid) for peid in table.peids if peid not in members)
    return Surroundings(descriptor, int(members[0]), outside)
