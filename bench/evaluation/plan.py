"""Runs the steps of the evaluation: each within a time limit, and its rows are kept at once.

A step that fails or takes too long is reported and left out. What is done is not done again when
a run is resumed.
"""

from __future__ import annotations

import re
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

Row = dict[str, Any]
Say = Callable[[str], None]

# A step may take so many times what is expected, an experiment too, and this many seconds more.
PATIENCE: Final = 3.0
MORE_SECONDS: Final = 60.0
EXPERIMENT_PATIENCE: Final = 2.0
TRIES: Final = 2
# Time that is left for plots and page at the end.
PAGE_SECONDS: Final = 20.0
# Seconds of steps that must be done before expectations are corrected by them.
LEAST_EXPECTED: Final = 10.0
REASON_LETTERS: Final = 160
NO_TIME: Final = "no time was left"
STOPPED: Final = "the run was stopped"


class OutOfTimeError(Exception):
    """A step took longer than its limit."""


@dataclass(frozen=True)
class Step:
    """One system at one point of an experiment. ``measure`` returns rows by table."""

    experiment: str
    name: str
    # What it is expected to take.
    seconds: float
    measure: Callable[[], Row]

    @property
    def key(self) -> str:
        """The name among all steps."""
        return f"{self.experiment}: {self.name}"


class Plan:
    """Steps in order, and the results that they fill."""

    def __init__(
        self,
        steps: Sequence[Step],
        results: Row,
        keep: Callable[[], None],
        say: Say,
        minutes: float,
    ) -> None:
        self._steps = steps
        self._results = results
        self._keep = keep
        self._say = say
        self._end = time.monotonic() + 60 * minutes - PAGE_SECONDS
        self._spent: dict[str, float] = {}
        # Expected and real seconds of the steps that were done now.
        self._expected = self._took = 0.0

    def run(self) -> None:
        """Do every step that is not done yet; when stopped, note what is missing."""
        try:
            self._run()
        except KeyboardInterrupt:
            for step in self._steps:
                if step.key not in self._results["done"]:
                    self._results["left_out"].setdefault(step.key, STOPPED)
            self._keep()
            raise

    def _run(self) -> None:
        for number, step in enumerate(self._steps, 1):
            if step.key in self._results["done"]:
                continue
            place = f"step {number} of {len(self._steps)}, about {self._rest(number):.0f} min left"
            self._say(f"[{place}] {step.key}")
            began = time.monotonic()
            reason = self._refusal(step) or self._try(step)
            took = time.monotonic() - began
            self._spent[step.experiment] = self._spent.get(step.experiment, 0.0) + took
            if reason is None:
                self._results["done"][step.key] = round(took, 1)
                self._results["left_out"].pop(step.key, None)
                self._expected += step.seconds
                self._took += took
            else:
                self._say(f"{step.key} is left out: {reason}")
                self._results["left_out"][step.key] = reason
            self._keep()

    def _try(self, step: Step) -> str | None:
        """Do a step, a second time if it fails, and keep its rows; return why it failed."""
        limit = min(PATIENCE * step.seconds + MORE_SECONDS, self._left_of(step.experiment))
        end, reason = time.monotonic() + limit, None
        for _ in range(TRIES):
            try:
                with time_limit(end - time.monotonic()):
                    found = step.measure()
            except OutOfTimeError as error:
                return reason or reason_of(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other steps go on
                self._say(traceback.format_exc())
                reason = reason_of(error)
            else:
                self._add(found)
                return None
        return reason

    def _add(self, found: Row) -> None:
        """Add rows to their tables."""
        for table, rows in found.items():
            if isinstance(rows, list):
                self._results.setdefault(table, []).extend(rows)
            else:
                self._results.setdefault(table, {}).update(rows)

    def _refusal(self, step: Step) -> str | None:
        """Return why a step is not even begun, if it is not."""
        if time.monotonic() + step.seconds * self._pace() > self._end:
            return NO_TIME
        if self._left_of(step.experiment) < step.seconds:
            return "its experiment took too long"
        return None

    def _left_of(self, experiment: str) -> float:
        expected = sum(step.seconds for step in self._steps if step.experiment == experiment)
        limit = EXPERIMENT_PATIENCE * expected + MORE_SECONDS
        return limit - self._spent.get(experiment, 0.0)

    def _pace(self) -> float:
        """Return how much longer steps take than expected, by those that are done."""
        if self._expected < LEAST_EXPECTED:
            return 1.0
        return self._took / self._expected

    def _rest(self, number: int) -> float:
        """Return the minutes that the steps from a number on will take."""
        ahead = [
            step for step in self._steps[number - 1 :] if step.key not in self._results["done"]
        ]
        return self._pace() * sum(step.seconds for step in ahead) / 60


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTimeError in the main thread when the block takes longer."""

    def ring(_number: int, _frame: object) -> None:
        raise OutOfTimeError(f"took more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1.0))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def reason_of(error: BaseException) -> str:
    """Return an error in one line that names no file."""
    text = " ".join(str(error).split())
    words = f"{type(error).__name__}: {re.sub(r'(/[^ /]+)+/?', '…', text)}" if text else repr(error)
    return words[:REASON_LETTERS]
