"""Sessions of the running broker: their quota, and `spaps sessions` from another process."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.access.passwords import hash_password
from schemas.world_places import control_place
from tests.servers.raw_client import DISCONNECT, RawClient, subscribe_packet
from tests.servers.running_broker import PATIENCE, RunningBroker, running_broker

AN_HOUR = b"\x11\x00\x00\x0e\x10"
QUOTA_EXCEEDED, ADMINISTRATIVE_ACTION = 0x97, 0x98
SPAPS = [sys.executable, "-c", "from spaps.cli.command_line import main; main()", "sessions"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker that lets anonymous clients and two users in, with room for few sessions."""
    folder = tmp_path_factory.mktemp("sessions")
    users = "".join(f"{name}:{hash_password('secret')}\n" for name in ("ann", "bob"))
    (folder / "users").write_text(users)
    config = f"""
    [broker]
    allow_anonymous = true
    password_file = "{folder}/users"
    [broker.limits]
    sessions_of_address = 3
    sessions_of_user = 2
    """
    arguments = ("--memberships", "none", "--http", "127.0.0.1:0")
    with running_broker(folder, *arguments, config=config) as running:
        yield running


def sessions(broker: RunningBroker, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in the folder that the broker was started in."""
    return subprocess.run(
        [*SPAPS, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False,
        cwd=broker.folder, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip


def come(broker: RunningBroker, client_id: str, user: str | None = None) -> tuple[RawClient, bytes]:
    client = RawClient(broker.port)
    login = {} if user is None else {"user": user, "password": b"secret"}
    return client, client.connect(client_id=client_id, properties=AN_HOUR, clean=False, **login)


def rows(broker: RunningBroker) -> dict[tuple[str, str | None], dict[str, object]]:
    done = sessions(broker, "list", "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {(row["client"], row["user"]): row for row in lines}


def test_a_quota_for_each_user_and_address_and_an_end_that_makes_room(
    broker: RunningBroker,
) -> None:
    for user, most, cause in (("ann", 2, "user"), (None, 3, "address")):
        for number in range(most):
            client, answer = come(broker, f"q{number}", user)
            assert answer[1] == 0
            client.close()
        client, answer = come(broker, "one more", user)
        assert answer[1] == QUOTA_EXCEEDED
        assert f"has {most} sessions, which is the limit".encode() in answer
        assert client.is_closed()
        assert broker.metric(f'spaps_sessions_refused_total{{cause="{cause}"}}') == 1
    client, answer = come(broker, "another user's", "bob")
    assert answer[1] == 0
    client.close()
    several = sessions(broker, "end", "q0")
    assert several.returncode == 2
    assert "several users have client id 'q0': None, ann; give --user" in several.stderr
    for number in range(3):
        done = sessions(broker, "end", f"q{number}", "--anonymous")
        assert (done.returncode, done.stdout) == (0, f"session of q{number} ended\n")
    for name, user in (("q0", "ann"), ("q1", "ann"), ("another user's", "bob")):
        assert sessions(broker, "end", name, "--user", user).returncode == 0
    assert rows(broker) == {}


def test_what_is_listed_and_how_a_connected_client_is_ended(broker: RunningBroker) -> None:
    away, _ = come(broker, "away\x1b[2J", "ann")
    away.close()
    client, _ = come(broker, "here")
    client.send(subscribe_packet("a/#"))
    client.read_packet()
    found = rows(broker)
    assert set(found) == {("away\x1b[2J", "ann"), ("here", None)}
    here = found["here", None]
    assert f"client connected client='here' user=None from='{here['address']}'" in broker.log
    assert str(here["address"]).startswith("127.0.0.1:")
    assert (here["state"], here["subscriptions"], here["queued"]) == ("connected", 1, 0)
    assert (here["expires"], here["expirySeconds"]) == (None, 3600)
    gone = found["away\x1b[2J", "ann"]
    assert (gone["state"], gone["address"]) == ("away", "127.0.0.1")
    assert str(gone["since"]) < str(gone["expires"])
    shown = sessions(broker, "list").stdout
    assert "\x1b" not in shown
    assert r"away\x1b[2J" in shown
    assert "connected" in shown

    assert sessions(broker, "end", "here").returncode == 0
    first, body = client.read_packet()
    assert (first, body[0]) == (DISCONNECT, ADMINISTRATIVE_ACTION)
    assert client.is_closed()
    farewell = "client disconnected: ended by an operator client='here' user=None from='127.0.0.1:"
    assert farewell in broker.log
    assert " object at 0x" not in broker.log
    assert sessions(broker, "end", "away\x1b[2J").returncode == 0
    missing = sessions(broker, "end", "here")
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    assert "there is no session of client id 'here'" in missing.stderr


def test_the_socket_is_its_owners_alone_and_goes_with_the_broker(tmp_path: Path) -> None:
    world = tmp_path / "city"
    path = control_place(str(world))
    arguments = ("--memberships", "none", "--allow-anonymous", "--world", str(world))
    with running_broker(tmp_path / "one", *arguments) as broker:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with running_broker(tmp_path / "two", *arguments) as second:
            assert "another broker listens there" in second.log
        broker.process.kill()
        broker.process.wait()
        none = sessions(broker, "list", "--world", str(world))
        assert (none.returncode, none.stderr.count("\n")) == (2, 1)
        assert f"no broker answers at {path}" in none.stderr
        # What a killed broker left does not stop the next one; any folder will do to ask it.
        with running_broker(tmp_path / "one", *arguments):
            assert sessions(broker, "list", "--json", "--world", str(world)).returncode == 0
            assert sessions(broker, "list", "--json").returncode == 2
        assert not path.exists()
        absent = sessions(broker, "list", "--socket", "elsewhere.sock")
        assert "no broker answers at elsewhere.sock" in absent.stderr
        broker.expected_code = None
