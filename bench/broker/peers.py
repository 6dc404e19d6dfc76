"""The brokers of the benchmark as processes: ours in each mode, Mosquitto, amqtt as it comes."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.broker.connection import LoadError
from system_packages import find_program, missing_line

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0

# A fair peer: as much may be under way as with us, nothing is dropped, nothing is logged.
MOSQUITTO: Final = """\
listener {port} 127.0.0.1
allow_anonymous true
{persistence}
log_type error
max_inflight_messages 1000
max_queued_messages 0
set_tcp_nodelay true
"""
AMQTT: Final = """\
listeners:
  default:
    type: tcp
    bind: 127.0.0.1:{port}
plugins:
  amqtt.plugins.authentication.AnonymousAuthPlugin:
    allow_anonymous: true
"""


# A broker does not start without a world; what it resolves is prepared (served.py).
WORLD_ENTITIES: Final = 100


class PeerMissingError(Exception):
    """A broker to compare with is not installed; the text says how to get it."""


@dataclass(frozen=True)
class Served:
    """A broker that listens."""

    name: str
    port: int
    pid: int
    version: str = ""
    http_port: int = 0


def pinned(command: list[str], core: int) -> list[str]:
    """Return the command on one core."""
    return ["taskset", "-c", str(core), *command]


@contextmanager
def ours(mode: str, core: int, log: Path, redis_url: str = "none") -> Iterator[Served]:
    """Run our broker in a mode, on a small world that lies beside its log."""
    world = log.parent / "world"
    if not world.exists():
        drawing = [sys.executable, "-m", "bench.live.world", str(world), str(WORLD_ENTITIES)]
        subprocess.run(drawing, check=True)
    command = [sys.executable, "-m", "bench.broker.served", str(world), mode, redis_url]
    with log.open("w") as errors:
        process = subprocess.Popen(
            pinned(command, core), stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    try:
        found = re.findall(r"[\d.]+:(\d+) \((\w+)\)", process.stdout.readline())
        ports = {name: int(port) for port, name in found}
        if not ports:
            raise LoadError(f"our broker did not start: {log.read_text()}")
        yield Served(f"spaps {mode}", ports["default"], process.pid, http_port=ports["http"])
    finally:
        _stop(process)
        process.stdout.close()


@contextmanager
def mosquitto(core: int, folder: Path, *, persistent: bool = False) -> Iterator[Served]:
    """Run Mosquitto as Debian packs it; ``persistent``: with a store, written by its defaults."""
    found = find_program("mosquitto")
    if found is None:
        raise PeerMissingError(missing_line("mosquitto"))
    program = str(found)
    help_text = subprocess.run([program, "-h"], capture_output=True, text=True, check=False).stdout
    version = help_text.partition("\n")[0].strip()
    persistence, name = "persistence false", "mosquitto.conf"
    if persistent:
        # As root it would change to a user that may not write into the folder.
        persistence = f"persistence true\npersistence_location {folder}/\nuser root"
        name = "mosquitto-persistent.conf"
    settings = MOSQUITTO.replace("{persistence}", persistence)
    with _configured([program, "-c"], settings, core, folder / name) as (port, pid):
        yield Served("Mosquitto", port, pid, version)


@contextmanager
def amqtt(core: int, folder: Path) -> Iterator[Served]:
    """Run the broker of amqtt itself, with its default plugins for logging in and nothing else."""
    command = [str(Path(sys.executable).with_name("amqtt")), "-c"]
    with _configured(command, AMQTT, core, folder / "amqtt.yaml") as (port, pid):
        yield Served("amqtt", port, pid)


@contextmanager
def _configured(
    command: list[str], settings: str, core: int, file: Path
) -> Iterator[tuple[int, int]]:
    """Run a broker with a settings file, on a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    file.write_text(settings.format(port=port))
    log = file.with_suffix(".log")
    with log.open("w") as output:
        process = subprocess.Popen(
            pinned([*command, str(file)], core), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise LoadError(f"{command[0]} did not start:\n{log.read_text()}")
            time.sleep(0.05)
        yield port, process.pid
    finally:
        _stop(process)


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _stop(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
