"""``spaps config check``: each mistake is a line that stops the broker too; what it says holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.access.passwords import hash_password
from spaps.cli.command_line import run
from tests.servers.certificates import Certificates

NO_WORLD = '[redis]\nurl = "none"\n[broker]\nmemberships = "none"\n'
USER = f"alice:{hash_password('secret')}\n"


def settings_file(folder: Path, text: str) -> Path:
    path = folder / "spaps.toml"
    path.write_text(NO_WORLD + text)
    return path


def checked(capsys: pytest.CaptureFixture[str], path: Path) -> tuple[int, list[str], list[str]]:
    """Exit code, what it says, and what it complains about."""
    code = run(["config", "check", "--config", str(path)])
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err.splitlines()


# Settings below [broker], and what is wrong with them.
MISTAKES = {
    'log_level = "loud"': "broker.log_level must be one of debug, info, warning, error, not 'loud'",
    'log_format = "xml"': "broker.log_format must be text or json, not 'xml'",
    'listen = "nonsense:port"': "broker.listen must be HOST:PORT",
    'listen = ""': "broker.listen is empty and there are no broker.listeners",
    'listen = "0.0.0.0"\nallow_anonymous = true': "can be reached from other machines",
    'http = "here:there"': "broker.http must be HOST:PORT",
    'http = "0.0.0.0:9883"': "can be reached from other machines and needs a login",
    'http_users = ["alice"]': "broker.http_users: needs broker.password_file",
    'listener = "x"': "unknown setting broker.listener; known: ",
    "listen = 1883": "broker.listen must be a text, not 1883",
    'password_file = "nowhere"': "broker.password_file: nowhere: No such file or directory",
    'acl_file = "nowhere"': "broker.acl_file: nowhere: No such file or directory",
    'websocket_origins = ["map"]': "broker.websocket_origins: 'map' is no origin",
    'gateway = ["a/b"]': "gateway rule 'a/b': exactly one level must be {peid}",
    "[broker.limits]\nconnections = -1": "broker.limits.connections must not be below 0, not -1",
    "[broker.limits]\nsessions = 1.5": "broker.limits.sessions must be a whole number, not 1.5",
    "[broker.limits]\nsession = 1": "unknown setting broker.limits.session; known: ",
    '[broker.listeners.a]\nbind = "9"\ntype = "udp"': "broker.listeners.a.type must be tcp or ws",
    "[broker.listeners.a]\nbind = 1\ncolour = 2": "unknown setting broker.listeners.a.colour",
    '[broker.listeners.a]\nbind = "9"\nssl = true': "broker.listeners.a: ssl needs certfile and",
    '[broker.listeners.a]\nbind = "9"\nssl = true\ncertfile = "x.pem"\nkeyfile = "x.key"':
        "broker.listeners.a: 'certfile' does not exist : x.pem",
    '[broker.listeners.a]\nbind = "9"\nssl = true\ncertfile = "spaps.toml"\nkeyfile = "spaps.toml"':
        "broker.listeners.a: spaps.toml, spaps.toml: ",
    '[broker.plugins."Plugin"]': "broker.plugins: 'Plugin' is no plugin",
    '[broker.plugins."no.such.Plugin"]': "broker.plugins: ",
}  # fmt: skip


@pytest.mark.parametrize(("text", "complaint"), MISTAKES.items(), ids=MISTAKES.values())
def test_a_mistake_is_one_line_and_stops_the_broker_too(
    text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    path = settings_file(tmp_path, text)
    code, said, complaints = checked(capsys, path)
    assert (code, said) == (2, [])
    assert len(complaints) == 1
    assert complaint in complaints[0]
    assert run(["broker", "--config", str(path)]) == 2
    assert capsys.readouterr().err.splitlines() == complaints


def test_all_mistakes_of_all_files_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "users").write_text(f"alice\n{USER}{USER}")
    (tmp_path / "rules").write_text("topic read a/#\ntopics b\nuser\n")
    text = f"""
    password_file = "{tmp_path}/users"
    acl_file = "{tmp_path}/rules"
    log_level = "loud"
    colour = "red"
    [broker.limits]
    connections = -1
    sessions = "many"
    """
    path = settings_file(tmp_path, text)
    code, _, complaints = checked(capsys, path)
    assert code == 2
    wanted = [
        f"{path}: unknown setting broker.colour",
        "broker.log_level must be",
        "broker.limits.connections must not",
        "broker.limits.sessions must be",
        f"broker.password_file: {tmp_path}/users, line 1: ",
        f"broker.password_file: {tmp_path}/users, line 3: user 'alice' stands there twice",
        f"broker.acl_file: {tmp_path}/rules, line 2: ",
        f"broker.acl_file: {tmp_path}/rules, line 3: ",
    ]
    assert len(complaints) == len(wanted)
    for complaint, start in zip(complaints, wanted, strict=True):
        assert complaint.startswith(f"spaps: {start}")
    assert run(["broker", "--config", str(path)]) == 2


def test_the_environment_is_read_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPAPS_BROKER_LISTENS", "1883")
    monkeypatch.setenv("SPAPS_BROKER_ALLOW_ANONYMOUS", "perhaps")
    code, _, complaints = checked(capsys, settings_file(tmp_path, 'log_level = "loud"'))
    assert code == 2
    assert len(complaints) == 3
    assert "environment: SPAPS_BROKER_LISTENS is no setting" in complaints[1] + complaints[0]


def test_what_a_guarded_broker_would_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], certificates: Certificates, city: Path
) -> None:
    (tmp_path / "users").write_text(USER)
    (tmp_path / "rules").write_text("user alice\ntopic a/#\nuser bob\ntopic b\npattern c/%u\n")
    path = tmp_path / "spaps.toml"
    path.write_text(f"""
    [world]
    dir = "{city}"
    [redis]
    url = "redis://someone:secret@redis.example:6379"
    [broker]
    listen = "0.0.0.0:1883"
    http = "9883"
    http_users = ["alice", "carol"]
    password_file = "{tmp_path}/users"
    acl_file = "{tmp_path}/rules"
    [broker.listeners.tls]
    type = "ws"
    ssl = true
    bind = "127.0.0.1:8884"
    certfile = "{certificates.server}"
    keyfile = "{certificates.server_key}"
    """)
    code, said, warnings = checked(capsys, path)
    assert code == 0
    text = "\n".join(said)
    for line in (
        "listens at 0.0.0.0:1883 (default): MQTT, from other machines",
        "listens at 127.0.0.1:8884 (tls): MQTT over WebSocket with TLS, from this machine alone",
        f"certificate {certificates.server}, until ",
        "health page and metrics at 127.0.0.1:9883: for alice, carol, from this machine alone",
        f"may connect: alice ({tmp_path}/users)",
        "rules for alice, bob, 0 for clients without a user name, 1 patterns for all",
        f"world version 2 of {city}, mode memory",
        "redis.example:6379, as broker broker",
    ):
        assert line in text
    assert "secret" not in text
    assert f"warning: broker.http_users: 'carol' is not in {tmp_path}/users" in warnings
    assert any("rules for user 'bob', who is not in" in line for line in warnings)


def test_what_an_open_broker_would_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said, warnings = checked(capsys, settings_file(tmp_path, "allow_anonymous = true"))
    assert (code, warnings) == (0, [])
    assert "may connect: clients without a user name" in said
    assert "every client may use all topics: broker.acl_file is empty" in said
    assert "nothing survives the process: redis.url is none" in said
    code, said, warnings = checked(capsys, settings_file(tmp_path, ""))
    assert "nobody may connect" in said
    assert any("nobody can connect: give --allow-anonymous" in line for line in warnings)
    assert list(tmp_path.iterdir()) == [tmp_path / "spaps.toml"], "nothing is made"


def test_a_world_without_a_version_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "world").mkdir()
    path = tmp_path / "spaps.toml"
    path.write_text(f'[world]\ndir = "{tmp_path}/world"\n')
    assert checked(capsys, path)[0] == 2
    path.write_text(f'[world]\ndir = "{tmp_path}/none"\n')
    code, _, complaints = checked(capsys, path)
    assert (code, complaints) == (
        2, [f"spaps: no world at {tmp_path}/none: import one with 'spaps import'"],
    )  # fmt: skip
