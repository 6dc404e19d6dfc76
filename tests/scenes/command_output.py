"""What a command that ran in this process returned and printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class CommandOutput(NamedTuple):
    """With the names that ``subprocess.CompletedProcess`` has for the same."""

    returncode: int
    stdout: str
    stderr: str


Inside = Callable[..., CommandOutput]
