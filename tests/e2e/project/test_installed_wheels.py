"""Both wheels in environments of their own, outside of the repository: client and server."""

from __future__ import annotations

import json
import re
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spaps import __version__
from tests.e2e.conftest import WAIT_SECONDS, Environment

DISTRICT = "({4000000005986438},{zone/admin/+},T)"
MEMBER = 4000000002221178

# A program whose own modules have the names of rooms of the server.
PROGRAM = {
    "schemas.py": "TABLE = 'my own table'\n",
    "broker.py": "def price(shares):\n    return 3 * shares\n",
    "jobs/__init__.py": "",
    "jobs/nightly.py": "def run():\n    return 'my own job'\n",
    "program.py": """
import json, queue, sys
import broker, schemas
from jobs import nightly
from spaps import NeighborhoodRefusedError, SpatialClient

port, neighborhood, peid = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
inbox = queue.Queue()
with SpatialClient("127.0.0.1", port, on_message=inbox.put) as client:
    nsid = client.subscribe("a", neighborhood, qos=1)
    client.publish("a", "outside", peid=1, qos=1).wait()
    client.publish("a", "inside", peid=peid, qos=1).wait()
    message = inbox.get(timeout=60)
    try:
        client.subscribe("a", "({1},{road/#},C AND)")
    except NeighborhoodRefusedError as error:
        refusal = [error.stage, error.reason]
print(json.dumps({
    "own": [schemas.TABLE, broker.price(2), nightly.run()],
    "message": [message.payload.decode(), message.nsids == (nsid,)],
    "refusal": refusal,
    "elsewhere": sorted({"world", "redis_link", "rebuild", "spatial_udfs"} & set(sys.modules)),
}))
""",
}


@pytest.fixture
def users_program(tmp_path: Path) -> Path:
    """A folder with a program of somebody who has names of their own."""
    folder = tmp_path / "program"
    for name, text in PROGRAM.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@contextmanager
def started_broker(environment: Environment, world: str, folder: Path) -> Iterator[int]:
    """Run ``spaps broker`` of an environment in a folder; yields its port."""
    command = [
        *(str(environment.programs / "spaps"), "broker", "--world", world),
        *("--listen", "127.0.0.1:0", "--allow-anonymous", "--redis", "none"),
    ]
    log = folder.parent / "broker.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            command, cwd=folder, env=environment.variables,
            stdout=subprocess.PIPE, stderr=stderr, text=True,
        )  # fmt: skip
    assert process.stdout is not None
    try:
        readable, _, _ = select.select([process.stdout], [], [], WAIT_SECONDS)
        ready = process.stdout.readline() if readable else ""
        found = re.search(r"127\.0\.0\.1:(\d+) \(default\)", ready)
        assert found is not None, ready + log.read_text()
        yield int(found[1])
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_SECONDS) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


def test_the_client_lives_with_a_program_that_has_our_names(
    client_environment: Environment,
    server_environment: Environment,
    users_program: Path,
    tmp_path: Path,
    repository: Path,
) -> None:
    """Import and broker come from the server's wheel, the client from its own."""
    world = str(tmp_path / "world")
    source = repository / "data" / "monaco.osm.pbf"
    spaps = server_environment.programs / "spaps"
    said = server_environment.run(spaps, "import", "--world", world, source, folder=tmp_path)
    assert "version 1" in said
    # The broker and its processes are not confused by a folder with modules named as theirs.
    with started_broker(server_environment, world, users_program) as port:
        printed = client_environment.run(
            client_environment.python, "program.py", str(port), DISTRICT, str(MEMBER),
            folder=users_program,
        )  # fmt: skip
    result = json.loads(printed)
    assert result["own"] == ["my own table", 6, "my own job"]
    assert result["message"] == ["inside", True]
    assert result["refusal"][0] == 1
    assert result["refusal"][1].startswith("stage 1: ")
    assert result["elsewhere"] == []


def test_the_environment_of_the_client_has_the_client_alone(
    client_environment: Environment, tmp_path: Path
) -> None:
    """The negative control of the test above: nothing of the clone can be reached."""
    code = """
import importlib.metadata, importlib.util
names = ("schemas", "broker", "jobs", "world", "conf", "spaps.cli", "spaps.demo", "typer", "numpy")
print([name for name in names if importlib.util.find_spec(name)])
print(sorted(one.name for one in importlib.metadata.distributions()))
import spaps
print(spaps.__version__, spaps.__file__)
"""
    found, distributions, version = client_environment.run(
        client_environment.python, "-c", code, folder=tmp_path
    ).splitlines()
    assert found == "[]"
    assert distributions == "['paho-mqtt', 'spaps-mqtt']"
    assert version == f"{__version__} {client_environment.site / 'spaps' / '__init__.py'}"
