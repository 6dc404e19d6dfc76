"""Output files of commands: each is written completely, or stays as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from schemas.errors import OutputError


@contextmanager
def output_file(path: Path) -> Iterator[Path]:
    """Yield a path beside ``path`` to write to, then replace ``path`` by it in one step.

    On failure an OutputError names the path and the reason, and no draft is left. A pipe or a
    device, such as /dev/stdout, is written to directly.
    """
    target = path.resolve()  # the target of a link is replaced, not the link
    with _output_errors(path):
        if target.is_dir():
            raise IsADirectoryError(None, "is a folder, not a file")
        if target.exists() and not target.is_file():
            yield target
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
        try:
            yield draft
            draft.replace(target)
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)


@contextmanager
def _output_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: {_reason(error)}; it was not written") from error


def write_text(path: Path, content: str) -> None:
    """Write a text file in place of the one that is there."""
    with output_file(path) as draft:
        draft.write_text(content, "utf-8")


def _reason(error: OSError) -> str:
    """Return the system's words; Arrow writes its own around them."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "a part of its path is a file, not a folder"
    if error.errno:
        return os.strerror(error.errno)
    return error.strerror or str(error)
