"""Logins on the running broker: safe by default, and with broken files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.scenes.broker.guarded_broker import (
    BAD_PASSWORD,
    NO_WORLD,
    NOT_AUTHORIZED,
    SECRET,
    SUCCESS,
    access_files,
    login,
    next_payload,
    publish,
    subscribe,
)
from tests.servers.raw_client import DISCONNECT, RawClient, publish_packet
from tests.servers.running_broker import COMMAND, PATIENCE, RunningBroker, running_broker, until


def test_a_fresh_broker_is_on_this_machine_alone_and_lets_nobody_in(tmp_path: Path) -> None:
    with running_broker(tmp_path, *NO_WORLD) as broker:
        assert "127.0.0.1:" in broker.ready
        for who in ({}, {"user": "admin", "password": b"admin"}, {"user": ""}):
            with RawClient(broker.port) as client:
                code = client.connect(**who)[1]
                assert code == (BAD_PASSWORD if who else NOT_AUTHORIZED)
                assert client.is_closed()
        assert "nobody can connect" in broker.log


@pytest.mark.parametrize(
    "listener",
    [
        ["--listen", "0.0.0.0:0"],
        ["--listen", "[::]:0"],
        ["--config", "web.toml"],
    ],
)
def test_a_public_address_without_passwords_is_refused(listener: list[str], tmp_path: Path) -> None:
    (tmp_path / "web.toml").write_text('[broker.listeners.web]\ntype = "ws"\nbind = "0.0.0.0:0"\n')
    done = subprocess.run(
        [*COMMAND, *NO_WORLD, "--allow-anonymous", *listener],
        capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert "can be reached from other machines" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_public_address_with_a_password_file_starts(tmp_path: Path) -> None:
    config = access_files(tmp_path)
    with running_broker(tmp_path, *NO_WORLD, "--listen", "0.0.0.0:0", config=config) as broker:
        with RawClient(broker.port) as client:
            assert client.connect()[1] == NOT_AUTHORIZED
        login(broker, "alice").close()


def refusal(folder: Path, config: str) -> str:
    """What a broker says that does not start with these settings."""
    (folder / "broken.toml").write_text(config)
    done = subprocess.run(
        [*COMMAND, *NO_WORLD, "--listen", "127.0.0.1:0", "--config", str(folder / "broken.toml")],
        capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


def test_a_missing_or_broken_password_file_is_an_error_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "users"
    config = f'[broker]\npassword_file = "{path}"\n'
    assert f"broker.password_file: {path}: No such file" in refusal(tmp_path, config)
    path.write_text(f"alice:{SECRET}\nbroken\n")
    assert f"{path}, line 2: expected user:hash" in refusal(tmp_path, config)


def test_a_word_that_no_rule_file_knows_is_an_error_with_its_line(tmp_path: Path) -> None:
    config = access_files(tmp_path, "user alice\ntopic readwrite #\ntopic dney secret/#\n")
    said = refusal(tmp_path, config)
    assert f"broker.acl_file: {tmp_path}/rules, line 3: " in said
    assert "not 'dney'" in said


def reload(broker: RunningBroker) -> None:
    """Have the broker read its files, and wait until it has."""
    before = broker.log.count("access files read again")
    broker.reload()
    until(lambda: broker.log.count("access files read again") > before, "files read again")


def test_an_empty_or_broken_password_file_denies(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"alice:{SECRET}\n")
    config = f'[broker]\npassword_file = "{path}"\n'
    with running_broker(tmp_path, *NO_WORLD, "--http", "0", config=config) as broker:
        login(broker, "alice").close()
        for content in ("", "alice:secret\n", f"alice:{SECRET}\nbroken\n", None):
            if content is None:
                path.unlink()
            else:
                path.write_text(content)
            reload(broker)
            for password in (b"secret", b"", None):
                with RawClient(broker.port) as client:
                    assert client.connect(user="alice", password=password)[1] == BAD_PASSWORD
            assert broker.problems() == ([f"{path} denies everybody"] if content != "" else [])
        assert f"access denied to everybody until this is repaired: {path}, line 2" in broker.log
        assert f"{path}: No such file" in broker.log


def test_an_empty_or_broken_rule_file_denies(tmp_path: Path) -> None:
    config = access_files(tmp_path)
    with (
        running_broker(tmp_path, *NO_WORLD, config=config) as broker,
        login(broker, "alice") as client,
    ):
        assert subscribe(client, "home/kitchen") == SUCCESS
        for content in ("", "# only words\n", "user alice\ntopic read #\ntopic dney x\n"):
            (tmp_path / "rules").write_text(content)
            reload(broker)
            assert subscribe(client, "home/cellar") == NOT_AUTHORIZED
            assert publish(client, "home/kitchen") == NOT_AUTHORIZED


def test_passwords(guarded: RunningBroker) -> None:
    cases = [("alice", b"secret"), ("alice", b"Secret"), ("alice", None), ("carol", b"secret")]
    codes = []
    for user, password in cases:
        with RawClient(guarded.port) as client:
            codes.append(client.connect(user=user, password=password)[1])
    assert codes == [SUCCESS, BAD_PASSWORD, BAD_PASSWORD, BAD_PASSWORD]
    assert "secret" not in guarded.log.lower()


def test_topic_plugins_of_amqtt_are_asked(tmp_path: Path) -> None:
    config = """
    [broker]
    allow_anonymous = true
    [broker.plugins."amqtt.plugins.topic_checking.TopicTabooPlugin"]
    """
    with (
        running_broker(tmp_path, *NO_WORLD, config=config) as broker,
        RawClient(broker.port) as client,
    ):
        assert client.connect()[1] == SUCCESS
        assert subscribe(client, "open") == SUCCESS
        assert subscribe(client, "top-secret") == NOT_AUTHORIZED
        assert publish(client, "prohibited") == NOT_AUTHORIZED
        client.send(publish_packet("open", b"hello"))
        assert next_payload(client) == b"hello"


def test_a_stopping_broker_says_so(tmp_path: Path) -> None:
    with running_broker(tmp_path, *NO_WORLD, "--allow-anonymous") as broker:
        with RawClient(broker.port) as client:
            client.connect()
            assert broker.stop() == 0
            first, body = client.read_packet()
            assert (first, body[0]) == (DISCONNECT, 0x8B)
            assert client.is_closed()
        until(lambda: broker.process.poll() == 0, "the end")
