"""How long work tells what it is at, without knowing who shows it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called again and again while a phase goes on; ``total`` is None when it is not known."""

    def __call__(self, phase: str, done: int, total: int | None) -> None:
        """Say that ``done`` of ``total`` steps of the phase are finished."""


def silent(phase: str, done: int, total: int | None) -> None:
    """The progress that nobody looks at."""
