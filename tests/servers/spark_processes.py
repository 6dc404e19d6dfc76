"""Finds and kills processes of a Spark that runs on ``local-cluster``."""

from __future__ import annotations

import os
import signal
from pathlib import Path

EXECUTOR = "CoarseGrainedExecutorBackend"
# Executors fork their Python workers from a daemon, which is a worker's parent.
DAEMON = "daemon"


def executors_of(driver: int) -> list[int]:
    """Return the executors below a driver's process."""
    return [pid for pid in descendants(driver) if EXECUTOR in command_of(pid)]


def workers_of(executor: int) -> list[int]:
    """Return the Python workers below an executor."""
    daemons = [pid for pid in children(executor) if DAEMON in command_of(pid)]
    return [worker for daemon in daemons for worker in children(daemon)]


def kill(pid: int) -> None:
    """Send SIGKILL to a process."""
    os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return all processes below a process."""
    below = children(pid)
    return below + [other for child in below for other in descendants(child)]


def children(pid: int) -> list[int]:
    """Return the processes that a process has started; none when it has ended."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:
            continue
    return found


def command_of(pid: int) -> str:
    """Return the command line of a process; "" when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
