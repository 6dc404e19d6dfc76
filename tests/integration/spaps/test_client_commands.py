"""``spaps sub`` and ``spaps pub`` as a person uses them, on a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spaps import SpatialClient
from tests.scenes.surroundings import Surroundings
from tests.servers.running_broker import PATIENCE, RunningBroker, until

SPAPS = [sys.executable, "-c", "from spaps.cli.command_line import main; main()"]


def where(broker: RunningBroker) -> list[str]:
    return ["-h", "127.0.0.1", "-p", str(broker.port)]


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*SPAPS, *arguments], input=stdin, capture_output=True, timeout=PATIENCE, check=False
    )


@contextmanager
def subscribed(
    broker: RunningBroker, client_id: str, *arguments: str
) -> Iterator[subprocess.Popen[bytes]]:
    """``spaps sub`` once it listens: it has received a message of a topic of its own."""
    ready = f"ready/{client_id}"
    process = subprocess.Popen(
        [*SPAPS, "sub", *where(broker), "-i", client_id, *arguments, "-t", ready],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        with SpatialClient("127.0.0.1", broker.port) as client:
            # Kept by the broker: whenever the subscription is in force, it is there at once.
            client.publish(ready, "ready", retain=True, qos=1).wait()
            assert b"ready" in process.stdout.readline()
            client.publish(ready, None, retain=True, qos=1).wait()
        assert process.stdout.readline() in (b"\n", f"{ready} \n".encode())
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        assert process.stderr is not None
        process.stderr.close()


def test_pub_reaches_sub(open_broker: RunningBroker) -> None:
    with subscribed(open_broker, "plain", "-t", "shell/#", "-v", "-q", "1", "-C", "5") as process:
        arguments = ("pub", *where(open_broker), "-t", "shell/a", "-q", "1")
        assert run(*arguments, "-m", "text").returncode == 0
        assert run(*arguments, "-s", stdin=b"whole\x00input").returncode == 0
        assert run(*arguments, "-l", stdin=b"one\ntwo\n").returncode == 0
        out, err = process.communicate(timeout=PATIENCE)
    assert out == b"shell/a text\nshell/a whole\x00input\nshell/a one\n"
    assert err == b""
    assert process.returncode == 0


def test_a_neighborhood_as_json(open_broker: RunningBroker, surroundings: Surroundings) -> None:
    process = subprocess.Popen(
        [*SPAPS, "sub", *where(open_broker), "-t", "shell/spatial", "--json", "-C", "1",
         "--neighborhood", surroundings.descriptor, "--nsid", "17"],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    with SpatialClient("127.0.0.1", open_broker.port) as client:

        def ended() -> bool:
            client.publish("shell/spatial", "out", peid=surroundings.outside)
            client.publish("shell/spatial", b"\xff", peid=surroundings.inside)
            return process.poll() is not None

        until(ended, "the message")
    assert process.stdout is not None
    with process.stdout:
        (line,) = process.stdout.readlines()
    assert process.wait(PATIENCE) == 0
    assert json.loads(line) == {
        "topic": "shell/spatial", "qos": 0, "retain": False, "nsids": [17],
        "peid": surroundings.inside, "properties": [["peid", str(surroundings.inside)]],
        "payload_base64": "/w==",
    }  # fmt: skip


def test_a_retained_message_about_an_entity(
    open_broker: RunningBroker, surroundings: Surroundings, tmp_path: Path
) -> None:
    content = tmp_path / "content"
    content.write_bytes(b"from a file")
    for name, peid in (("in", surroundings.inside), ("out", surroundings.outside)):
        done = run("pub", *where(open_broker), "-t", f"shell/kept/{name}", "-f", str(content),
                   "-r", "--peid", str(peid), "-q", "1")  # fmt: skip
        assert done.returncode == 0
    descriptor = tmp_path / "descriptor.json"
    descriptor.write_text(surroundings.descriptor)
    arguments = ["sub", *where(open_broker), "-t", "shell/kept/#", "-v"]
    process = subprocess.Popen(
        [*SPAPS, *arguments, "--neighborhood", str(descriptor), "-C", "2"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout, SpatialClient("127.0.0.1", open_broker.port) as client:
        assert process.stdout.readline() == b"shell/kept/in from a file\n"
        # Whatever else was kept has been sent before this one.
        client.publish("shell/kept/live", "live", peid=surroundings.inside)
        assert process.stdout.readline() == b"shell/kept/live live\n"
    assert process.wait(PATIENCE) == 0
    without = subprocess.Popen([*SPAPS, *arguments, "-R", "-C", "1"], stdout=subprocess.PIPE)
    with SpatialClient("127.0.0.1", open_broker.port) as client:

        def ended() -> bool:
            client.publish("shell/kept/live", "not kept")
            return without.poll() is not None

        until(ended, "a message that was not kept")
    assert without.stdout is not None
    with without.stdout:
        assert without.stdout.read() == b"shell/kept/live not kept\n"
    for name in ("in", "out"):
        assert run("pub", *where(open_broker), "-t", f"shell/kept/{name}", "-n", "-r").stderr == b""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["sub", "-t", "a", "--neighborhood", "({1},{road/#},C AND)"], "stage 1"),
        (["sub", "-t", "a", "--neighborhood", "({999999999},{road/#},C)"], "999999999"),
        (["sub", "-t", "a", "--nsid", "1"], "--neighborhood"),
        (["sub", "-t", "a", "--tls"], "does this port speak TLS?"),
        (["sub", "-t", "a/#/b"], "'a/#/b' is no topic filter: + and # stand alone in a level"),
        (["sub", "-t", "a", "--cert", "x"], "--key"),
        (["sub"], "--topic"),
        (["pub", "-t", "a"], "-m, -f, -s, -l and -n"),
        (["pub", "-t", "a", "-m", "x", "-n"], "-m, -f, -s, -l and -n"),
        (["pub", "-t", "a", "-n", "--peid", "-1"], "peid"),
        (["pub", "-t", "a", "-f", "absent file"], "absent file"),
        (["pub", "-t", "a", "-n", "-p", "1"], "refused"),
    ],
)
def test_mistakes_are_one_line(
    open_broker: RunningBroker, arguments: list[str], complaint: str
) -> None:
    port = [] if "-p" in arguments else ["-p", str(open_broker.port)]
    done = run(*arguments, "-h", "127.0.0.1", *port)
    assert done.returncode == 2
    assert complaint in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == b""


def test_a_warning_is_told_beside_the_messages(
    open_broker: RunningBroker, surroundings: Surroundings
) -> None:
    reference = json.loads(surroundings.descriptor)["refs"][0]
    done = run("sub", *where(open_broker), "-t", "a", "-W", "1",
               "--neighborhood", f"({{{reference}}},{{#}},C AND T)")  # fmt: skip
    assert done.stderr.startswith(b"warning: stage 1: always empty")
    assert done.returncode == 27
