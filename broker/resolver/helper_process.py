"""Helper processes of the broker, started without copying the broker's memory.

uvloop forks, and a fork copies the page tables of all the broker's memory: ten milliseconds and
more in which no message is handled. The standard library uses vfork instead: the child shares the
memory until it executes its own program.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from typing import Any

from numpy.typing import NDArray

from broker.resolver.frames import Arrays, frame_parts, receive_frame


class HelperProcess:
    """A Python module in a separate process; both sides send frames over a socket."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls, module: str, *arguments: str) -> HelperProcess:
        """Start a module; it gets its end of the socket by ``--socket``."""
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as failed, theirs:
            failed.callback(ours.close)
            handle = theirs.fileno()
            # -P: the working directory of the broker may have modules with our names.
            process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own program, by vfork
                [sys.executable, "-P", "-m", module, "--socket", str(handle), *arguments],
                pass_fds=(handle,), stdin=subprocess.DEVNULL,
            )  # fmt: skip
            failed.pop_all()
        return cls(process, *await asyncio.open_connection(sock=ours))

    def send(self, header: dict[str, Any]) -> None:
        """Send a frame that is small enough to be buffered."""
        self._writer.writelines(frame_parts(header))

    async def send_arrays(self, header: dict[str, Any], *arrays: NDArray[Any]) -> None:
        """Send a frame, array by array as the process reads them."""
        for part in frame_parts(header, *arrays):
            self._writer.write(part)
            await self._writer.drain()

    async def receive(self) -> tuple[dict[str, Any], Arrays]:
        """Return the next frame; EOFError or OSError when the process has ended, FrameError."""
        return await receive_frame(self._reader)

    def kill(self) -> None:
        """Kill the process, if it has not ended."""
        self._process.kill()

    async def stop(self) -> None:
        """Kill the process and wait until it has ended."""
        self._writer.close()
        self.kill()
        await asyncio.to_thread(self._process.wait)
