"""The options of a job: a wrong one is one line and exit code 2, as every other error."""

from __future__ import annotations

import argparse
import math
from typing import Final, NoReturn

from schemas.errors import EXIT_FAILED

# Of the largest peid.
MOST_DIGITS: Final = 19


class JobParser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        """Print the message and end the job."""
        self.exit(EXIT_FAILED, f"error: {message} ({self.prog} --help)\n")


def seconds(text: str) -> float:
    """Return a time, which is a number of 0 or more."""
    return _number_of("seconds", text)


def metres(text: str) -> float:
    """Return a distance, which is a number of 0 or more."""
    return _number_of("metres", text)


def _number_of(unit: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of {unit}, 0 or more, not {text!r}")
    return value


def whole_number(text: str) -> int:
    """Return a number that counts something, 0 or more."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more, not {text[:40]!r}")
    return int(text)
