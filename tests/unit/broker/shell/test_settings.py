"""The broker's settings: conf names every limit, and mistakes are named by their key."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from broker.core.limits import BrokerLimits
from broker.ports import JournalLimits
from broker.shell.limits import RESERVED_FILES, ShellLimits, read_limits, use_all_files
from broker.shell.network.listeners import amqtt_config
from schemas.errors import SettingsError
from schemas.settings import load_settings


def load(folder: Path, text: str):  # noqa: ANN201 - the settings' class says it
    path = folder / "mine.toml"
    path.write_text(text)
    return load_settings(path, environment={}).broker


def test_conf_holds_every_limit_with_the_default_of_the_code() -> None:
    table = load_settings(environment={}).broker.limits
    assert read_limits(table) == (BrokerLimits(), ShellLimits())
    assert set(table) == {
        field.name for kind in (BrokerLimits, ShellLimits) for field in fields(kind)
    }


def test_safe_by_default() -> None:
    broker = load_settings(environment={}).broker
    assert broker.listen == "127.0.0.1:1883"
    assert not broker.allow_anonymous
    assert not broker.anonymous_from_anywhere
    assert (broker.password_file, broker.acl_file, broker.plugins, broker.listeners) == (
        None, None, {}, {},
    )  # fmt: skip


def test_a_limit_is_changed(tmp_path: Path) -> None:
    broker = load(tmp_path, "[broker.limits]\nconnections = 7\nconnect_timeout = 3\n")
    core, shell = read_limits(broker.limits)
    assert (shell.connections, core.connect_timeout) == (7, 3.0)
    assert core.packet_bytes == BrokerLimits().packet_bytes


def test_the_journal_has_its_limits_from_the_file(tmp_path: Path) -> None:
    assert read_limits(load(tmp_path, "").limits)[1].journal == JournalLimits()
    given = """
    redis_answer_seconds = 1
    redis_patience_seconds = 2
    journal_records = 3
    journal_changes = 4
    lease_seconds = 5
    stuck_seconds = 6
    """
    _, shell = read_limits(load(tmp_path, f"[broker.limits]{given}").limits)
    assert shell.journal == JournalLimits(
        answer_seconds=1.0, patience_seconds=2.0, waiting_records=3, waiting_changes=4,
        lease_seconds=5.0, stuck_seconds=6.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[broker.limits]\nconections = 7\n", "unknown setting broker.limits.conections"),
        ("[broker]\nlisten = 1883\n", "broker.listen must be a text"),
        ("[broker]\nlisteners = 3\n", "broker.listeners is a table"),
    ],
)
def test_mistakes_in_the_file(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=message):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("connections = -1", "broker.limits.connections must not be below 0"),
        ('connections = "many"', "broker.limits.connections must be a whole number"),
        ("keep_alive = 1.5", "broker.limits.keep_alive must be a whole number"),
    ],
)
def test_impossible_limits(line: str, message: str, tmp_path: Path) -> None:
    broker = load(tmp_path, f"[broker.limits]\n{line}\n")
    with pytest.raises(SettingsError, match=message):
        read_limits(broker.limits)


def test_listeners_and_plugins_take_any_keys(tmp_path: Path) -> None:
    broker = load(
        tmp_path,
        '[broker.listeners.tls]\nbind = "8883"\nssl = true\n[broker.plugins."a.b.C"]\nx = [1]\n',
    )
    assert broker.listeners == {"tls": {"bind": "8883", "ssl": True}}
    assert broker.plugins == {"a.b.C": {"x": [1]}}


def test_connections_fit_the_files_that_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr("resource.setrlimit", lambda _, both: asked.append(both))
    monkeypatch.setattr("resource.getrlimit", lambda _: (100, 500))
    assert use_all_files(1000) == 500 - RESERVED_FILES
    assert use_all_files(10) == 10
    assert asked == [(500, 500)]


@pytest.mark.parametrize("key", ["max_connections = 5", 'reader = "x"', "certfle = 3"])
def test_keys_of_a_listener_that_mean_nothing_are_errors(key: str, tmp_path: Path) -> None:
    broker = load(tmp_path, f'[broker.listeners.more]\nbind = "127.0.0.1:0"\n{key}\n')
    with pytest.raises(SettingsError, match=f"broker.listeners.more.*{key.split(maxsplit=1)[0]}"):
        amqtt_config(broker)


def test_complaints_about_listeners_and_plugins_are_in_words_of_the_file(tmp_path: Path) -> None:
    broker = load(tmp_path, '[broker.listeners.more]\nbind = "127.0.0.1:0"\ncertfle = 3\n')
    with pytest.raises(SettingsError, match=r"^unknown setting broker\.listeners\.more\.certfle; "):
        amqtt_config(broker)
    broker = load(tmp_path, "[broker.plugins.guard]\nx = 1\n")
    with pytest.raises(SettingsError, match=r"'guard' is no plugin: write package\.module\.Class"):
        amqtt_config(broker)
