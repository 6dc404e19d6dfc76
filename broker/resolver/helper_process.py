"""Helper processes beside the broker, started without copying what the broker holds.

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
from typing import Any

from numpy.typing import NDArray

from broker.resolver.frames import Arrays, frame_parts, receive_frame


class HelperProcess:
    """A Python module in a process of its own; both sides send frames over a socket."""

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
        """Start a module; it finds its end of the socket by ``--socket``."""
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as failed, theirs:
            failed.callback(ours.close)
            handle = theirs.fileno()
            # -P: the folder in which a broker is started may have modules named as ours.
            process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own program, lent our memory
                [sys.executable, "-P", "-m", module, "--socket", str(handle), *arguments],
                pass_fds=(handle,), stdin=subprocess.DEVNULL,
            )  # fmt: skip
            failed.pop_all()
        return cls(process, *await asyncio.open_connection(sock=ours))

    def send(self, header: dict[str, Any]) -> None:
        """Send a frame that is small enough to wait in memory."""
        self._writer.writelines(frame_parts(header))

    async def send_arrays(self, header: dict[str, Any], *arrays: NDArray[Any]) -> None:
        """Send a frame, array by array as the process takes them."""
        for part in frame_parts(header, *arrays):
            self._writer.write(part)
            await self._writer.drain()

    async def receive(self) -> tuple[dict[str, Any], Arrays]:
        """Return the next frame; EOFError or OSError when the process is gone, FrameError."""
        return await receive_frame(self._reader)

    def kill(self) -> None:
        """End the process now, if it has not ended."""
        self._process.kill()

    async def stop(self) -> None:
        """End the process and wait until it is gone."""
        self._writer.close()
        self.kill()
        await asyncio.to_thread(self._process.wait)
