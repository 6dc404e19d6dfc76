"""What commands write to the terminal: results to stdout, everything else to stderr."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from spaps.cli.printable_text import printable

__all__ = ["PhaseProgress", "printable", "remarks", "results"]


def results() -> Console:
    """Where a command prints what was asked for."""
    return Console(highlight=False)


def remarks() -> Console:
    """Where a command prints what is worth knowing beside that."""
    return Console(stderr=True, highlight=False)


class PhaseProgress:
    """A progress bar with one line for each phase; fits ``world.progress.Progress``.

    Only shown on a terminal, and gone when the work is done: what stays is the result.
    """

    def __init__(self) -> None:
        console = remarks()
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
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
        """Say that ``done`` of ``total`` steps of the phase are finished."""
        if phase != self._phase:
            self._bars.remove_task(self._task)
            self._task = self._bars.add_task(escape(printable(phase)), total=total)
            self._phase = phase
        self._bars.update(self._task, completed=done, total=total)
