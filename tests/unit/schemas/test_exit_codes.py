"""How jobs end: an exit code, and one line when it is not 0."""

from __future__ import annotations

import pytest

from schemas.errors import (
    EXIT_BUSY,
    EXIT_FAILED,
    EXIT_NOT_CLEAN,
    PushBusyError,
    RebuildBusyError,
    WorldError,
    exit_code_of,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PushBusyError("a push runs"), EXIT_BUSY),
        (RebuildBusyError("a rebuild runs"), EXIT_BUSY),
        (WorldError("no world there"), EXIT_FAILED),
        (OSError(28, "No space left on device"), EXIT_FAILED),
    ],
)
def test_an_error_is_a_code_and_a_line(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> int:
        raise error

    assert exit_code_of(work) == code
    assert capsys.readouterr() == ("", f"error: {error}\n")


def test_what_the_work_says_is_the_code() -> None:
    assert exit_code_of(lambda: EXIT_NOT_CLEAN) == EXIT_NOT_CLEAN


def test_a_mistake_in_the_program_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        exit_code_of(lambda: 1 // 0)
