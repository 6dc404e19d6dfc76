"""Processes beside the broker, started without copying what the broker holds.

uvloop forks, and a fork copies the page tables of all the broker's memory: ten milliseconds and
more in which no message moves. The standard library lends the memory to the child instead
(vfork) until that has begun its own program.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys


class ChildProcess:
    """A Python module that runs in a process of its own and knows one end of a socket."""

    def __init__(self, module: str, *arguments: str) -> None:
        """Start it; ``socket`` is our end."""
        self.socket, theirs = socket.socketpair()
        with contextlib.ExitStack() as failed, theirs:
            failed.callback(self.socket.close)
            handle = theirs.fileno()
            # -P: the folder in which a broker is started may have modules named as ours.
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-m", module, "--socket", str(handle), *arguments],
                pass_fds=(handle,), stdin=subprocess.DEVNULL,
            )  # fmt: skip
            failed.pop_all()

    def kill(self) -> None:
        """End it now, if it has not ended."""
        self._process.kill()

    async def end(self) -> None:
        """End it now, and wait until it is gone."""
        self.kill()
        await asyncio.to_thread(self._process.wait)
