"""The code blocks of a page, and a folder in which they run as in a clone."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

BLOCK = re.compile(
    r"^```(?P<kind>bash|python|javascript)\n(?P<code>.*?)^```\n(?:```text\n(?P<expected>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A piece of code, and the output that stands right below it, if any does."""

    kind: str
    code: str
    expected: str | None

    def run_in(self, folder: Path, ports: Mapping[str, int] | None = None) -> None:
        """Run as a reader would who copies it into a shell in the clone; AssertionError if not.

        ``ports`` replaces ports that the page names, so that pages of several checkouts can run at
        the same time.
        """
        code = with_ports(self.code, ports or {})
        done = subprocess.run(
            self._command(code, folder),
            cwd=folder,
            env={
                **os.environ,
                "COLUMNS": "100",
                "PATH": f"{folder}/.venv/bin:{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        if self.expected is not None:
            expected = with_ports(self.expected, ports or {})
            same = _trimmed(done.stdout) == _trimmed(expected)
            assert same, f"{code}\nprinted\n{done.stdout}instead of\n{expected}"

    def _command(self, code: str, folder: Path) -> list[str]:
        if self.kind == "bash":
            return ["bash", "-c", "set -euo pipefail\n" + code]
        if self.kind == "python":
            return [sys.executable, "-c", code]
        # Beside node_modules, where Node looks for packages.
        script = folder / "block.mjs"
        script.write_text(code, "utf-8")
        return ["node", str(script)]


def _trimmed(text: str) -> list[str]:
    """Return the lines without spaces at their ends, which a table has and a page has not."""
    return [line.rstrip() for line in text.splitlines()]


def with_ports(text: str, ports: Mapping[str, int]) -> str:
    """Return the text with other ports, also where a URL or an option has them."""
    for written, free in ports.items():
        text = re.sub(rf"\b{written}\b", str(free), text)
    return text


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page that can be run, in their order."""
    return [
        Block(found["kind"], found["code"], found["expected"]) for found in BLOCK.finditer(text)
    ]


def parameters(page: Path) -> list[object]:
    """Return the blocks of a page as parameters of a test, numbered."""
    found = enumerate(blocks(page.read_text("utf-8")), start=1)
    return [pytest.param(block, id=f"{page.stem}-{n}-{block.kind}") for n, block in found]


def free_ports(*written: str) -> dict[str, int]:
    """Return a port that is free now for each port that a page names."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in written]
        return dict(zip(written, (one.getsockname()[1] for one in sockets), strict=True))


@contextmanager
def linked_clone(repository: Path, folder: Path, pid_file: str) -> Iterator[Path]:
    """Make a folder of links to the repository, so that what the blocks write goes elsewhere.

    At the end the broker whose pid stands in ``pid_file`` is stopped, as the reader is told to do.
    """
    for entry in repository.iterdir():
        if entry.name not in {"lake", "out", ".git", "node_modules"}:
            (folder / entry.name).symlink_to(entry)
    if not (folder / ".venv").exists():
        (folder / ".venv").symlink_to(Path(sys.prefix))
    yield folder
    broker = folder / pid_file
    if broker.exists():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(broker.read_text()), signal.SIGTERM)
