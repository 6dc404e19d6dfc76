"""``spaps passwd``: users come and go, passwords never stand anywhere in the clear."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from broker.access.passwords import PasswordChecker, read_users
from spaps.cli.command_line import run


def passwd(monkeypatch: pytest.MonkeyPatch, typed: str, *arguments: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    return run(["passwd", *arguments])


def test_users_are_added_changed_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "passwords"
    assert passwd(monkeypatch, "first\n", str(file), "alice") == 0
    assert passwd(monkeypatch, "other\n", str(file), "bob") == 0
    assert passwd(monkeypatch, "second\n", str(file), "alice") == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[2] for line in out] == [
        "user 'alice' added, 1 in all",
        "user 'bob' added, 2 in all",
        "user 'alice' changed, 2 in all",
    ]
    checker = PasswordChecker(read_users(file))
    assert checker.check("alice", b"second")
    assert not checker.check("alice", b"first")
    assert checker.check("bob", b"other")
    assert "second" not in file.read_text()

    assert passwd(monkeypatch, "", str(file), "alice", "--delete") == 0
    assert list(read_users(file)) == ["bob"]


@pytest.mark.parametrize(
    ("typed", "arguments", "complaint"),
    [
        ("\n", ("bob",), "the password is empty"),
        ("secret\n", ("#bob",), "user name '#bob'"),
        ("", ("bob", "--delete"), "no user 'bob'"),
    ],
)
def test_mistakes_leave_the_file_as_it_was(
    typed: str,
    arguments: tuple[str, ...],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "passwords"
    passwd(monkeypatch, "secret\n", str(file), "alice")
    before = file.read_bytes()
    assert passwd(monkeypatch, typed, str(file), *arguments) == 2
    assert complaint in capsys.readouterr().err
    assert file.read_bytes() == before


def test_a_broken_file_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "passwords"
    file.write_text("alice:clear text\n")
    assert passwd(monkeypatch, "secret\n", str(file), "bob") == 2
    assert "line 1: expected user:hash" in capsys.readouterr().err
    assert file.read_text() == "alice:clear text\n"
