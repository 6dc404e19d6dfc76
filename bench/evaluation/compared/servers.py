"""Starts the systems of the evaluation and the servers behind them, all on core 0."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg

from bench.broker.connection import LoadError
from bench.broker.peers import PeerMissingError, Served, amqtt, mosquitto, pinned
from bench.broker.players import NeighborhoodPlayer
from bench.evaluation.compared import database
from bench.evaluation.compared.systems import (
    AMQTT,
    BATCHED,
    DATABASE,
    MEMORY,
    MOSQUITTO,
    NONE,
    REDIS,
    NeighborhoodSystem,
    OldTopicSystem,
    System,
    TopicSystem,
    WholeTopicSystem,
)
from bench.evaluation.compared.worlds import Worlds
from bench.evaluation.nearby import Nearby
from bench.evaluation.workload import DisjointWorkload, Workload, reference_of
from redis_link.connection.client import connect
from redis_link.connection.embedded import EmbeddedRedis
from redis_link.generation.generation_push import PushSource
from redis_link.generation.local_push import push_pairs
from redis_link.generation.sweep import Retention
from redis_link.registry.registry_reader import registered_subscriptions, registry_coverage

SYSTEM_CORE, LOAD_CORE = 0, 1
STOP_SECONDS: Final = 60.0
SWITCH_SECONDS: Final = 120.0
# What is shown of a broker's log when a step fails.
LOG_LETTERS: Final = 2_000
# Nothing is swept while the evaluation measures.
KEPT: Final = Retention(grace_seconds=36_000)


@dataclass
class Servers:
    """Starts systems in a folder. ``worlds`` are made when first needed."""

    folder: Path
    worlds: Worlds
    # How to connect to PostgreSQL; None when it is not installed.
    dsn: str | None
    versions: dict[str, str]

    @property
    def nearby(self) -> Nearby:
        """The city in which neighborhoods of a given size are found."""
        return self.worlds.nearby

    @contextmanager
    def database(self) -> Iterator[psycopg.Connection[Any]]:
        """Connect to PostgreSQL; a step that is ended in the middle harms no other."""
        if self.dsn is None:
            raise PeerMissingError("PostgreSQL with PostGIS is not installed")
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            yield connection

    @contextmanager
    def system(self, name: str, workload: Workload) -> Iterator[System]:
        """Run a system, without subscriptions, until the block ends."""
        with ExitStack() as stack:
            if name in (MEMORY, NONE):
                mode = "memory" if name == MEMORY else "none"
                served = stack.enter_context(self._ours(mode, workload))
                kind = NeighborhoodSystem if name == MEMORY else WholeTopicSystem
                yield kind(name, served)
            elif name == REDIS:
                yield stack.enter_context(self._redis(workload))
            elif name in (DATABASE, BATCHED):
                yield stack.enter_context(self._database(workload, batched=name == BATCHED))
            elif name == MOSQUITTO:
                served = stack.enter_context(mosquitto(SYSTEM_CORE, self.folder))
                self.versions[MOSQUITTO] = served.version.rpartition(" ")[2]
                yield TopicSystem(name, served)
            elif name == AMQTT:
                self.versions[AMQTT] = metadata.version("amqtt")
                yield OldTopicSystem(name, stack.enter_context(amqtt(SYSTEM_CORE, self.folder)))
            else:
                raise ValueError(f"there is no system {name}")

    @contextmanager
    def _ours(self, mode: str, workload: Workload, *options: str) -> Iterator[Served]:
        """Run our broker."""
        log = self.folder / f"{mode}.log"
        command = [
            sys.executable,
            "-m",
            "bench.evaluation.compared.served",
            "--mode",
            mode,
            *options,
        ]
        if isinstance(workload, DisjointWorkload):
            command += ["--prepared", f"{workload.subscriptions},{workload.size}"]
            command += ["--world", self.worlds.synthetic_folder]
        else:
            command += ["--world", self.worlds.city_folder]
        with log.open("w") as errors:
            process = subprocess.Popen(
                pinned(command, SYSTEM_CORE), stdout=subprocess.PIPE, stderr=errors, text=True
            )
        try:
            yield _served(mode, process)
        except Exception:
            print(log.read_text()[-LOG_LETTERS:], file=sys.stderr)
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()

    @contextmanager
    def _redis(self, workload: Workload) -> Iterator[System]:
        """Run our broker and a Redis of its own."""
        folder = Path(tempfile.mkdtemp(prefix="redis", dir=self.folder))
        with ExitStack() as stack:
            # Its threads inherit the core.
            with on_core(SYSTEM_CORE):
                server = stack.enter_context(EmbeddedRedis(folder))
            pid = int(connect(server.url).info("server")["process_id"])
            with self._ours("redis", workload, "--redis", server.url) as served:
                yield RedisSystem(REDIS, served, (pid,), server.url)

    @contextmanager
    def _database(self, workload: Workload, *, batched: bool) -> Iterator[System]:
        """Run our broker with memberships in PostgreSQL."""
        with self.database() as connection:
            loaded = workload.subscriptions if isinstance(workload, DisjointWorkload) else 0
            blocks = ((workload.members(number), number + 1) for number in range(loaded))
            database.load(connection, blocks)
            options = ["--dsn", str(self.dsn), "--loaded", str(loaded)]
            options += ["--batched"] if batched else []
            name, processes = BATCHED if batched else DATABASE, (postmaster_of(connection),)
            with self._ours("database", workload, *options) as served:
                yield NeighborhoodSystem(name, served, processes)


def _served(mode: str, process: subprocess.Popen[str]) -> Served:
    """Wait until our broker says where it listens."""
    line = "" if process.stdout is None else process.stdout.readline()
    ports = {name: int(port) for port, name in re.findall(r"[\d.]+:(\d+) \((\w+)\)", line)}
    if not ports:
        raise LoadError("our broker did not start")
    return Served(mode, ports["default"], process.pid, http_port=ports["http"])


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Let what the block starts run on a core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class RedisSystem(NeighborhoodSystem):
    """The mode redis. Its subscriptions are in the process until ``push``."""

    def __init__(self, name: str, served: Served, processes: tuple[int, ...], url: str) -> None:
        super().__init__(name, served, processes)
        self._url = url

    def push(self, workload: Workload) -> None:
        """Make all subscriptions a generation in Redis, as a rebuild would."""
        client = connect(self._url)
        members = [
            (number, workload.members_of_reference(reference_of(one.descriptor)))
            for number, one in registered_subscriptions(client)
        ]
        peids = np.concatenate([each for _, each in members])
        sub_ids = np.repeat([number for number, _ in members], [len(each) for _, each in members])
        source = PushSource(1, "evaluation", registry_coverage(client))
        pushed = push_pairs(client, source, [(peids, sub_ids)], retention=KEPT)
        if pushed.cleanup is not None:
            pushed.cleanup.cancel()
        NeighborhoodPlayer(self.served).wait_for_generation(pushed.generation, SWITCH_SECONDS)


def dsn_of(connection: psycopg.Connection[Any]) -> str:
    """Return how others connect to the same server."""
    return f"host=127.0.0.1 port={connection.info.port} user=spaps dbname=postgres"


def postmaster_of(connection: psycopg.Connection[Any]) -> int:
    """Return the process of the server, whose children serve the connections."""
    fields = Path(f"/proc/{connection.info.backend_pid}/stat").read_text().rpartition(")")[2]
    return int(fields.split()[1])
