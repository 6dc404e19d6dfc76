"""``spaps broker`` as a process of its own, on ports that the system chooses."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

PROGRAM = [sys.executable, "-c", "from spaps.cli.command_line import main; main()", "broker"]
# Without Redis unless a test gives one: the last of two options counts.
COMMAND = [*PROGRAM, "--redis", "none"]
# Generous, because two cores may be busy with other tests; nothing waits this long in vain.
PATIENCE = 60.0


class RunningBroker:
    """A broker that is ready. ``ports`` are by the names of its listeners."""

    def __init__(self, process: subprocess.Popen[str], ready: str, log: Path) -> None:
        self.process = process
        self.ready = ready
        self._log = log
        self.folder = log.parent
        # None: it was killed on purpose.
        self.expected_code: int | None = 0
        self.ports = {
            name: int(port) for port, name in re.findall(r"[\d.]+:(\d+) \((\S+)\)", ready)
        }

    @property
    def port(self) -> int:
        """Where MQTT is spoken over plain TCP."""
        return self.ports["default"]

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self._log.read_text()

    def page(self, path: str) -> str:
        """A page of its HTTP server."""
        with urlopen(f"http://127.0.0.1:{self.ports['http']}{path}", timeout=10) as page:
            return str(page.read().decode())

    def health(self) -> dict[str, object]:
        """Its health page, read."""
        content: dict[str, object] = json.loads(self.page("/health"))
        return content

    def problems(self) -> list[str]:
        """What its health page complains about, whatever the status."""
        try:
            return list(self.health()["problems"])  # type: ignore[call-overload]
        except HTTPError as error:
            return list(json.loads(error.read())["problems"])

    def metric(self, name: str) -> float:
        """One figure of its metrics, 0 when it is not there yet."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.page("/metrics"), re.MULTILINE)
        return 0.0 if found is None else float(found[1])

    def wait_until_quiet(self) -> None:
        """Until the clients of earlier tests are gone, so that figures are this test's own."""
        names = ("spaps_connections", "spaps_neighborhoods")
        until(lambda: not any(self.metric(name) for name in names), "a broker without clients")

    def children(self, name: bytes) -> list[int]:
        """The ids of its processes that have this name in their command."""
        process = self.process.pid
        found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return [
            int(child) for child in found if name in Path(f"/proc/{child}/cmdline").read_bytes()
        ]

    def reload(self) -> None:
        """Have it read its access files now."""
        self.process.send_signal(signal.SIGHUP)

    def wait_for_log(self, text: str) -> None:
        """Until a line of the log holds the text."""
        until(lambda: text in self.log, f"{text!r} in the log")

    def stop(self) -> int:
        """End it as an operator would; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def until(condition, what: str) -> None:  # noqa: ANN001 - any callable without arguments
    """Wait until the condition holds, and fail in words if it never does."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


@contextmanager
def running_broker(
    folder: Path,
    *arguments: str,
    config: str = "",
    environment: Mapping[str, str] | None = None,
    prefix: tuple[str, ...] = (),
) -> Iterator[RunningBroker]:
    """Start a broker with these arguments and this text as its settings file."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "broker.toml"
    settings.write_text(config)
    log = folder / "broker.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*prefix, *COMMAND, "--listen", "127.0.0.1:0", "--config", str(settings), *arguments],
            stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=folder,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
    assert process.stdout is not None
    try:
        readable, _, _ = select.select([process.stdout], [], [], PATIENCE)
        ready = process.stdout.readline() if readable else ""
        assert "ready" in ready, f"the broker did not start: {ready}{log.read_text()}"
        broker = RunningBroker(process, ready, log)
        yield broker
        code = broker.stop()
        assert broker.expected_code in (None, code), f"the broker ended with {code}:\n{broker.log}"
        assert "Traceback" not in broker.log, broker.log
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
