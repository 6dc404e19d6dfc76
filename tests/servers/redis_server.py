"""redis-server as a process of a test: alone, with TLS, watched by Sentinel, or as a cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from tests.servers.programs import require_redis_server

WAIT_SECONDS = 120.0
SLOTS = 16_384
ATTEMPTS = 3


@dataclass(slots=True)
class RedisServer:
    """A server that runs; ``kill`` and ``restart`` for tests of what happens then."""

    port: int
    folder: Path
    arguments: tuple[str, ...]
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Without password or TLS."""
        return f"redis://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """SIGKILL, as a crash of the machine would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        """The same server again, on its port and with its data."""
        self.process = _spawn(self.folder, self.port, self.arguments)
        wait_for(lambda: answers(self.port), "the restarted server to answer with its data")


def free_port() -> int:
    """A port that was free a moment ago, with the one 10,000 above, which a cluster uses."""
    while True:
        with socket.socket() as probe, socket.socket() as bus:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                bus.bind(("127.0.0.1", port + 10_000))
                return port


def answers(port: int) -> bool:
    """Whether a Redis there has loaded its data: before, it answers PING with an error."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as link:
        link.settimeout(1)
        link.sendall(b"*1\r\n$4\r\nPING\r\n")
        return not link.recv(64).startswith(b"-LOADING")
    return False


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Ask until the answer is true."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.02)


@contextmanager
def running_redis(folder: Path, *arguments: str, port: int | None = None) -> Iterator[RedisServer]:
    """A server with an empty configuration but for the arguments; nothing is saved."""
    require_redis_server(*arguments)
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(ATTEMPTS):
        server = _listening(port or free_port(), folder, arguments)
        if server.process.poll() is None:
            break
        # Another process has taken the port, or the one of the cluster, in the meantime.
    try:
        yield server
    finally:
        server.kill()


def _listening(port: int, folder: Path, arguments: tuple[str, ...]) -> RedisServer:
    """A server that has opened its ports, or has ended because it could not."""
    process = _spawn(folder, port, arguments)
    log = folder / f"redis-{port}.log"
    wait_for(
        lambda: (
            process.poll() is not None
            or (listens(port) and b"Ready to accept connections" in log.read_bytes())
        ),
        "the server to listen",
    )
    return RedisServer(port, folder, arguments, process)


def _spawn(folder: Path, port: int, arguments: tuple[str, ...]) -> subprocess.Popen[bytes]:
    base = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(folder)]
    log = (folder / f"redis-{port}.log").open("ab")
    with log:
        return subprocess.Popen(
            [str(require_redis_server(*arguments)), *base, *arguments], stdout=log, stderr=log
        )


@dataclass(frozen=True, slots=True)
class Certificates:
    """A self-made authority and a certificate for 127.0.0.1."""

    authority: Path
    certificate: Path
    key: Path


def make_certificates(folder: Path, openssl: Path) -> Certificates:
    """Made with the openssl program, as the documentation tells users to."""
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, authority = folder / "authority.key", folder / "authority.pem"
    key, request, certificate = folder / "redis.key", folder / "redis.csr", folder / "redis.pem"
    extension = folder / "names.cnf"
    extension.write_text("subjectAltName=IP:127.0.0.1\n")
    new_key = ["-newkey", "rsa:2048", "-nodes", "-subj", "/CN=spaPS test"]
    for command in (
        ["req", "-x509", *new_key, "-keyout", authority_key, "-out", authority, "-days", "2"],
        ["req", *new_key, "-keyout", key, "-out", request],
        ["x509", "-req", "-in", request, "-CA", authority, "-CAkey", authority_key, "-days", "2",
         "-CAcreateserial", "-extfile", extension, "-out", certificate],
    ):  # fmt: skip
        subprocess.run(
            [str(openssl), *map(str, command)], check=True, capture_output=True, timeout=60
        )
    return Certificates(authority, certificate, key)


@contextmanager
def running_sentinel(folder: Path, service: str, master: RedisServer) -> Iterator[int]:
    """A Sentinel that decides alone; gives its port."""
    program = require_redis_server("--sentinel")
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    configuration = folder / "sentinel.conf"
    configuration.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
        f"sentinel monitor {service} 127.0.0.1 {master.port} 1\n"
        f"sentinel down-after-milliseconds {service} 500\n"
        f"sentinel failover-timeout {service} 2000\n"
    )
    log = (folder / "sentinel.log").open("ab")
    with log:
        process = subprocess.Popen(
            [str(program), str(configuration), "--sentinel"], stdout=log, stderr=log
        )
    try:
        wait_for(lambda: listens(port), "Sentinel to listen")
        yield port
    finally:
        process.kill()
        process.wait()


@contextmanager
def running_cluster(folder: Path, nodes: int = 3, *arguments: str) -> Iterator[list[RedisServer]]:
    """A cluster of masters that share the slots; ready when every node says so."""
    with ExitStack() as stack:
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", *arguments)
        servers = [
            stack.enter_context(running_redis(folder / f"node{number}", *options))
            for number in range(nodes)
        ]
        clients = [stack.enter_context(Redis(port=server.port)) for server in servers]
        bounds = [number * SLOTS // nodes for number in range(nodes + 1)]
        for number, client in enumerate(clients):
            client.execute_command(
                "CLUSTER", "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1
            )
            for other in servers:
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", other.port)
        wait_for(lambda: all(_knows_all(client, nodes) for client in clients), "the cluster")
        yield servers


def cluster_url(servers: list[RedisServer]) -> str:
    """All nodes of the cluster, one of them is enough to find the others."""
    return "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in servers)


def _knows_all(client: Redis, nodes: int) -> bool:
    try:
        facts = client.execute_command("CLUSTER", "INFO")
    except RedisError:
        return False
    text = facts if isinstance(facts, dict) else dict(
        line.split(":") for line in facts.decode().split()
    )  # fmt: skip
    return text["cluster_state"] == "ok" and int(text["cluster_known_nodes"]) == nodes


def alive(process_id: int) -> bool:
    """Whether the process is there and no zombie."""
    with contextlib.suppress(OSError):
        os.kill(process_id, 0)
        status = Path(f"/proc/{process_id}/stat")
        return not status.is_file() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    return False
