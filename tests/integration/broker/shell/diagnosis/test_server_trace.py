"""``spaps trace`` on a running broker: to a terminal or into the log, and how it ends."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.servers.raw_client import RawClient, publish_packet, subscribe_packet
from tests.servers.running_broker import PATIENCE, RunningBroker, running_broker, until

TRACE = [sys.executable, "-c", "from spaps.cli.command_line import main; main()", "trace"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker whose log has warnings alone."""
    folder = tmp_path_factory.mktemp("trace")
    config = '[broker]\nlog_level = "warning"\n'
    arguments = ("--memberships", "none", "--allow-anonymous")
    with running_broker(folder, *arguments, config=config) as running:
        yield running


@contextmanager
def tracing(broker: RunningBroker, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command in the folder of the broker, whose world it traces."""
    process = subprocess.Popen(
        [*TRACE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=broker.folder,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()


def trace(broker: RunningBroker, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRACE, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False,
        cwd=broker.folder,
    )  # fmt: skip


def first_lines(broker: RunningBroker, process: subprocess.Popen[str], data: bytes) -> list[str]:
    """Send as the traced client until the trace prints something; then all lines up to its end."""
    assert process.stdout is not None
    with RawClient(broker.port) as client:
        client.connect(client_id="traced")
        until(lambda: client.send(data) or process.poll() is not None, "the end of the trace")
    return process.stdout.read().splitlines()


def test_a_client_until_so_many_lines(broker: RunningBroker) -> None:
    with tracing(broker, "--client", "traced", "--lines", "3", "--json") as process:
        lines = first_lines(broker, process, publish_packet("a/b", b"secret"))
        assert process.wait(PATIENCE) == 0
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert len(rows) == 3
    for row in rows:
        assert (row["client"], row["event"], row["topic"]) == ("traced", "received PUBLISH", "a/b")
        assert (row["payloadBytes"], row["receivers"], "payload" in row) == (6, 0, False)
    assert "secret" not in broker.log


def test_a_topic_with_payloads(broker: RunningBroker) -> None:
    with tracing(broker, "--topic", "a/+", "--lines", "2", "--payloads") as process:
        lines = first_lines(broker, process, publish_packet("a/b", b"\x1b[2Jsecret"))
        assert process.wait(PATIENCE) == 0
    assert len(lines) == 2
    assert "routed PUBLISH topic='a/b' qos=0" in lines[0]
    assert lines[1].partition(" ")[2].startswith("traced: received PUBLISH topic='a/b'")
    assert all("secret" in line and "\x1b" not in line for line in lines)


def test_it_ends_with_its_terminal(broker: RunningBroker) -> None:
    """Connects and other lines of the log are told too, though this log has only warnings."""
    with tracing(broker, "--client", "comer", "--seconds", "3600") as process:
        assert process.stdout is not None
        stdout = process.stdout

        def has_come() -> bool:
            with RawClient(broker.port) as client:
                client.connect(client_id="comer")
                client.send(subscribe_packet("a"))
                client.read_packet()
            return bool(select.select([stdout], [], [], 0.2)[0])

        until(has_come, "the trace")
        has_come()  # the trace may have begun when the client was connected already
        text = ""
        while "client disconnected" not in text.partition("client connected")[2]:
            text += stdout.readline()
        assert "comer: client connected from='127.0.0.1:" in text
        assert "comer: received SUBSCRIBE" in text
        assert "sent SUBACK filters=1 codes={'a': '0x00'}" in text
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert "client connected" not in broker.log


def test_into_the_log_and_no_more_than_eight(broker: RunningBroker) -> None:
    for number in range(8):
        arguments = ("--client", f"logged{number}", "--log", "--lines", "1")
        # The trace of the last test may still be on.
        until(lambda given=arguments: not trace(broker, *given).returncode, "room for a trace")
    ninth = trace(broker, "--client", "logged", "--log")
    assert (ninth.returncode, ninth.stderr.count("\n")) == (2, 1)
    assert "8 traces are on: wait until one has ended" in ninth.stderr
    for number in range(8):
        with RawClient(broker.port) as client:
            client.connect(client_id=f"logged{number}")
            client.send(publish_packet("a/b", b"secret") * 3)
            client.ping()
        broker.wait_for_log(f"client='logged{number}'")
    assert broker.log.count("trace: received PUBLISH") == 8
    assert "WARNING trace: received PUBLISH" in broker.log
    assert "secret" not in broker.log
    again = trace(broker, "--client", "logged", "--log", "--seconds", "1")
    assert again.stdout == "the broker's log has the trace for 1 s\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give either --client or --topic"),
        (("--client", "a", "--topic", "b"), "give either --client or --topic"),
        (("--client", "a", "--seconds", "3601"), "seconds must be an integer from 1 to 3600"),
        (("--client", "a", "--lines", "0"), "lines must be an integer from 1 to 100000"),
        (("--topic", "a/#/b"), "topic filter 'a/#/b'"),
        (("--topic", "$share/g/a"), "shared subscription"),
        (("--topic", "a", "--payloads", "--log"), "payloads never go into the log"),
        (("--client", ""), "client must be a text that is not empty"),
    ],
)
def test_a_wrong_request_is_one_line(
    broker: RunningBroker, arguments: tuple[str, ...], said: str
) -> None:
    done = trace(broker, *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert said in done.stderr


def test_a_broker_that_stops_ends_its_traces(tmp_path: Path) -> None:
    arguments = ("--memberships", "none", "--allow-anonymous")
    with running_broker(tmp_path, *arguments) as broker:
        assert trace(broker, "--client", "x", "--log").returncode == 0
        with tracing(broker, "--topic", "#") as process:
            broker.wait_for_log("a trace of topic '#' starts: 60 s")
            assert broker.stop() == 0
            assert process.wait(PATIENCE) == 2
            assert process.stderr is not None
            assert "ended before it had answered" in process.stderr.read()
