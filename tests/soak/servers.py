"""The real parts of a soak: the broker and rebuilds as processes, to be killed and run again."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.servers.redis_server import free_port

COMMAND = (sys.executable, "-c", "from spaps.cli.command_line import main; main()")
START_SECONDS = 120.0


@dataclass(frozen=True)
class Places:
    """Where everything of one run lies."""

    folder: Path
    redis_url: str

    @property
    def world(self) -> Path:
        """The world versions."""
        return self.folder / "lake" / "world"

    @property
    def source(self) -> Path:
        """What a rebuild imports."""
        return self.folder / "city.parquet"

    @property
    def environment(self) -> dict[str, str]:
        """Settings for all commands."""
        return {
            **os.environ,
            "SPAPS_WORLD_DIR": str(self.world),
            "SPAPS_REDIS_URL": self.redis_url,
            "SPAPS_REBUILD_OUT": str(self.folder / "lake"),
            "SPAPS_REBUILD_RECORDS": str(self.folder / "lake" / "rebuilds"),
        }


class BrokerProcess:
    """``spaps broker`` on the same two ports through all its lives."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.port = free_port()
        self.http_port = free_port()
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, memberships: str) -> None:
        """Start it and wait until it is ready."""
        with (self._places.folder / "broker.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *COMMAND, "broker", "--allow-anonymous", "--memberships", memberships,
                "--listen", f"127.0.0.1:{self.port}", "--http", f"127.0.0.1:{self.http_port}",
                stdout=asyncio.subprocess.PIPE, stderr=log, env=self._places.environment,
            )  # fmt: skip
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            ready = await self._process.stdout.readline()
        if not re.search(rb"ready", ready):
            raise RuntimeError(f"the broker did not start: {self.log()[-2000:]}")

    @property
    def pid(self) -> int:
        """Of its present life, or the last one."""
        return -1 if self._process is None else self._process.pid

    async def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(START_SECONDS):
            return await self._process.wait()

    def log(self) -> str:
        """What it has logged in all its lives."""
        return (self._places.folder / "broker.log").read_text(errors="replace")


class RebuildProcess:
    """One ``spaps rebuild``; ``lines`` are what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read(), name="rebuild")

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.lines.append(line.decode(errors="replace").rstrip())

    async def wait_for_lines(self, count: int) -> None:
        """Until it has said so many lines, or has ended."""
        while len(self.lines) < count and not self._reading.done():  # noqa: ASYNC110 - from a task
            await asyncio.sleep(0.01)

    def kill(self) -> bool:
        """SIGKILL; whether it was still there."""
        if self._process.returncode is None:
            self._process.kill()
            return True
        return False

    async def ended(self) -> int:
        """Its exit code, when it has ended."""
        await self._reading
        return await self._process.wait()


async def start_command(places: Places, arguments: Sequence[str]) -> RebuildProcess:
    """A command of ours as a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT, env=places.environment,
    )  # fmt: skip
    return RebuildProcess(process)


def resident_megabytes(pid: int) -> float:
    """Memory of a process; 0 when it is not there."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1e3 if found else 0.0
