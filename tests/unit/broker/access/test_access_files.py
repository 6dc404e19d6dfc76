"""Files of access: changes are taken up once they are complete, what is broken denies."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from broker.access.access_files import WatchedFile
from schemas.errors import SettingsError

DENIAL = "nobody"


def read(path: Path) -> str:
    try:
        text = path.read_text()
    except OSError as error:
        raise SettingsError(f"{path.name}: {error.strerror}") from error
    if text == "broken":
        raise SettingsError(f"{path.name}: broken")
    return text


def rewrite(path: Path, text: str) -> None:
    """Write with a time of its own: two writes within one tick of the clock look alike."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text)
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_a_change_is_taken_up_at_the_look_after_the_one_that_saw_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    file = WatchedFile(path, read, DENIAL)
    assert file.content == "one"
    assert not file.reload_if_changed()
    rewrite(path, "tw")
    assert not file.reload_if_changed()
    rewrite(path, "two")
    assert not file.reload_if_changed(), "still being written"
    assert file.content == "one"
    assert file.reload_if_changed()
    assert file.content == "two"
    assert not file.reload_if_changed()


def test_a_broken_or_missing_file_denies_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "file"
    file = WatchedFile(path, read, DENIAL)
    assert (file.content, file.problem) == (DENIAL, "file: No such file or directory")

    rewrite(path, "one")
    file.reload_if_changed()
    assert file.reload_if_changed()
    assert (file.content, file.is_broken) == ("one", False)

    rewrite(path, "broken")
    file.reload_if_changed()
    assert file.reload_if_changed()
    assert (file.content, file.is_broken) == (DENIAL, True)

    rewrite(path, "two")
    file.reload()
    assert file.content == "two"
    path.unlink()
    with caplog.at_level(logging.ERROR):
        file.reload_if_changed()
        assert file.reload_if_changed()
    assert file.content == DENIAL
    assert "No such file" in caplog.text


def test_a_file_that_could_not_be_opened_is_tried_again_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The file has not changed: there was no descriptor to open it with."""
    path = tmp_path / "file"
    path.write_text("one")
    failures = [None, OSError(24, "Too many open files"), OSError(24, "Too many open files"), None]

    def read_if_possible(path: Path) -> str:
        failure = failures.pop(0)
        if failure is not None:
            raise SettingsError(f"{path.name}: {failure.strerror}") from failure
        return read(path)

    file = WatchedFile(path, read_if_possible, DENIAL)
    file.reload()
    assert (file.content, file.is_broken) == (DENIAL, True)
    while failures:
        file.reload_if_changed()
    assert (file.content, file.is_broken) == ("one", False)
    assert caplog.text.count("Too many open files") == 1
