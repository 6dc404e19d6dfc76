"""Starts the systems of the evaluation and the servers behind them, all on core 0."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
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
# Nothing is swept while the evaluation measures.
KEPT: Final = Retention(grace_seconds=36_000)


@dataclass
class Servers:
    """A folder, a world, and a PostgreSQL server if there is one."""

    folder: Path
    world: str
    postgres: psycopg.Connection[Any] | None
    versions: dict[str, str]

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
                self.versions[MOSQUITTO] = served.version
                yield TopicSystem(name, served)
            elif name == AMQTT:
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
        command += ["--world", self.world]
        with log.open("w") as errors:
            process = subprocess.Popen(
                pinned(command, SYSTEM_CORE), stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert process.stdout is not None
        try:
            found = re.findall(r"[\d.]+:(\d+) \((\w+)\)", process.stdout.readline())
            ports = {name: int(port) for port, name in found}
            if not ports:
                raise LoadError(f"our broker did not start: {log.read_text()}")
            yield Served(mode, ports["default"], process.pid, http_port=ports["http"])
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()

    @contextmanager
    def _redis(self, workload: Workload) -> Iterator[System]:
        """Run our broker and a Redis of its own."""
        number = sum(1 for _ in self.folder.glob("redis*"))
        with EmbeddedRedis(self.folder / f"redis{number}") as server:
            pid = int(connect(server.url).info("server")["process_id"])
            os.sched_setaffinity(pid, {SYSTEM_CORE})
            with self._ours("redis", workload, "--redis", server.url) as served:
                yield RedisSystem(REDIS, served, (pid,), server.url)

    @contextmanager
    def _database(self, workload: Workload, *, batched: bool) -> Iterator[System]:
        """Run our broker with memberships in PostgreSQL."""
        if self.postgres is None:
            raise PeerMissingError("PostgreSQL with PostGIS is not installed")
        loaded = workload.subscriptions if isinstance(workload, DisjointWorkload) else 0
        blocks = ((workload.members(number), number + 1) for number in range(loaded))
        database.load(self.postgres, blocks)
        options = ["--dsn", dsn_of(self.postgres), "--loaded", str(loaded)]
        options += ["--batched"] if batched else []
        with self._ours("database", workload, *options) as served:
            yield NeighborhoodSystem(
                BATCHED if batched else DATABASE, served, (postmaster_of(self.postgres),)
            )


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
