"""What commands write: text for the terminal, and files.

Results go to stdout, everything else to stderr. A file is written completely, or stays as it was.

Names, topics and messages come from other people. A control character in one of them could move
the cursor, hide a line or give the terminal commands. rich is imported when it is used, because
``spaps`` reports errors with these functions where rich is not installed.
"""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from schemas.errors import OutputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Controls, invisible formatting (also of the writing direction), surrogates, line separators.
_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Scripts such as Persian and Hindi are written with these two.
_JOINERS: Final = frozenset("\u200c\u200d")
_PRINTABLE_ASCII: Final = re.compile(r"[ -~]*")
_LAST_BMP: Final = 0xFFFF
WIDTH_OF_FILES: Final = 100_000


def printable(text: str, keep: str = "") -> str:
    r"""Return the text with each control character written out, as ``\x1b`` for escape.

    Characters in ``keep`` stay as they are: "\n\t" for a text of several lines.
    """
    if _PRINTABLE_ASCII.fullmatch(text):
        return text
    return "".join(one if _is_safe(one) or one in keep else repr(one)[1:-1] for one in text)


def printable_json(value: Any) -> str:
    """Return the value as JSON that is safe to print; readers of the JSON get the same value."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(one if _is_safe(one) else _json_escape(one) for one in text)


def printable_bytes(content: bytes) -> bytes:
    """Return a text of several lines that is safe to print; bytes that are no text are escaped."""
    return printable(content.decode("utf-8", "backslashreplace"), keep="\n\t").encode()


def goes_to_terminal() -> bool:
    """Return whether a terminal interprets what is written to stdout."""
    return sys.stdout.isatty()


def _is_safe(character: str) -> bool:
    return character in _JOINERS or unicodedata.category(character) not in _UNPRINTABLE


def _json_escape(character: str) -> str:
    number = ord(character)
    if number <= _LAST_BMP:
        return f"\\u{number:04x}"
    high, low = divmod(number - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def results() -> Console:
    """Return the console for what a command was asked for: stdout.

    A table in a file or pipe has each row on one line, unless COLUMNS says how wide it may be.
    """
    from rich.console import Console  # noqa: PLC0415  see above

    is_limited = goes_to_terminal() or "COLUMNS" in os.environ
    return Console(highlight=False, width=None if is_limited else WIDTH_OF_FILES)


def remarks() -> Console:
    """Return the console for warnings and progress: stderr."""
    from rich.console import Console  # noqa: PLC0415  see above

    return Console(stderr=True, highlight=False)


def print_result(line: str) -> None:
    """Print a line to stdout."""
    results().print(printable(line), soft_wrap=True, markup=False)


def print_remark(line: str) -> None:
    """Print a line to stderr."""
    remarks().print(printable(line), soft_wrap=True, markup=False)


def plain_table() -> Table:
    """Return an empty table with lines above and below its head."""
    from rich.box import HORIZONTALS  # noqa: PLC0415  see above
    from rich.table import Table  # noqa: PLC0415  see above

    return Table(box=HORIZONTALS, pad_edge=False, border_style="dim")


def print_warning(text: str) -> None:
    """Print a warning to stderr, on one line."""
    from rich.markup import escape  # noqa: PLC0415  see above

    remarks().print(f"[yellow]warning:[/] {escape(printable(text))}", soft_wrap=True)


class PhaseProgress:
    """A progress bar with one line for each phase; it is a ``world.long_work.Progress``.

    It is shown on a terminal only, and removed when the work is done.
    """

    def __init__(self) -> None:
        from rich import progress  # noqa: PLC0415  see above

        console = remarks()
        self._bars = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._phase: str | None = None
        self._task = self._bars.add_task("starting", total=None)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def __call__(self, phase: str, done: int, total: int | None) -> None:
        """Show that ``done`` of ``total`` steps of the phase are finished."""
        from rich.markup import escape  # noqa: PLC0415  see above

        if phase != self._phase:
            self._bars.remove_task(self._task)
            self._task = self._bars.add_task(escape(printable(phase)), total=total)
            self._phase = phase
        self._bars.update(self._task, completed=done, total=total)


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
