"""Password files: hashes only, and nothing odd in one ever lets somebody in."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.access.passwords import (
    PasswordChecker,
    check_user_name,
    hash_password,
    is_known_hash,
    password_fits,
    read_users,
    write_users,
)
from schemas.errors import SettingsError

HASH = hash_password("secret")


def test_a_hash_fits_its_password_alone() -> None:
    assert "secret" not in HASH
    assert password_fits(HASH, b"secret")
    for wrong in (b"", b"Secret", b"secret ", b"secret\x00", HASH.encode()):
        assert not password_fits(HASH, wrong)
    assert hash_password("secret") != HASH, "the salt must differ"


def test_hashes_of_mosquitto_are_understood(program: Callable[[str], Path], tmp_path: Path) -> None:
    file = tmp_path / "passwords"
    tool = program("mosquitto_passwd")
    subprocess.run([tool, "-c", "-b", file, "alice", "secret"], check=True)
    stored = read_users(file)["alice"]
    assert password_fits(stored, b"secret")
    assert not password_fits(stored, b"other")


@pytest.mark.parametrize(
    "stored",
    [
        "", "secret", "$", "$argon2id$", "$argon2id$v=19$m=1", "$6$c2FsdA==$aGFzaA==",
        "$7$", "$7$0$c2FsdA==$" + "A" * 88, "$7$99999999999$c2FsdA==$" + "A" * 88,
        "$7$100$c2FsdA==$", "$7$100$$" + "A" * 88, "$7$-1$c2FsdA==$" + "A" * 88,
        "$7$100$c2FsdA==$not base64", "$7$1$YQ==$YQ==$YQ==",
    ],
)  # fmt: skip
def test_what_is_no_hash_fits_nothing(stored: str) -> None:
    assert not is_known_hash(stored)
    for password in (b"", b"secret", stored.encode()):
        assert not password_fits(stored, password)


@pytest.mark.parametrize(
    "line",
    ["alice", "alice:", f":{HASH}", "alice:secret", f"alice:{HASH}\nalice:{HASH}", "\x00"],
    ids=["no colon", "no hash", "no name", "no known hash", "twice", "no text"],
)
def test_one_bad_line_spoils_the_file(line: str, tmp_path: Path) -> None:
    file = tmp_path / "passwords"
    file.write_text(f"# users\n\nbob:{HASH}\n{line}\n")
    with pytest.raises(SettingsError, match=r"passwords, line [45]"):
        read_users(file)


def test_a_file_keeps_what_was_written_and_is_private(tmp_path: Path) -> None:
    file = tmp_path / "passwords"
    file.write_text("old")
    users = {"alice": HASH, "b:c": HASH, "grün": HASH}
    write_users(file, users)
    assert read_users(file) == users
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["", " a", "a ", "#a", "a\nb", "\x00"])
def test_names_that_a_line_cannot_hold(name: str) -> None:
    with pytest.raises(SettingsError, match="user name"):
        check_user_name(name)


def test_logins() -> None:
    checker = PasswordChecker({"alice": HASH})
    assert not checker.is_remembered("alice", b"secret")
    assert not checker.check("alice", b"wrong")
    assert not checker.check("bob", b"secret")
    assert not checker.check("", b"")
    assert not checker.is_remembered("alice", b"wrong")
    assert checker.check("alice", b"secret")
    assert checker.is_remembered("alice", b"secret")
    assert not checker.is_remembered("alice", b"secre")
    # Name and password are told apart: the same letters, divided differently.
    assert not checker.is_remembered("alices", b"ecret")


def test_nobody_gets_in_where_there_are_no_users() -> None:
    checker = PasswordChecker({})
    for name, password in (("", b""), ("alice", b""), ("alice", b"secret")):
        assert not checker.check(name, password)


def test_somebody_unknown_stays_out_even_with_the_password_of_nobody() -> None:
    checker = PasswordChecker({})
    checker._nobody = HASH
    assert not checker.check("bob", b"secret")
    assert not checker.is_remembered("bob", b"secret")
