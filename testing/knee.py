"""Raises a rate until latency leaves its plateau, and finds the knee between the last rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

# A rate is on the plateau while its median is not above so many times the lowest one, or not
# more than so many milliseconds above it.
PLATEAU_TIMES: Final = 3.0
PLATEAU_MS: Final = 2.0
# With a higher median messages queue up.
HELD_MS: Final = 50.0
# With more seconds of delay gained in a second a queue grows, however short it is at the end.
HELD_GROWTH: Final = 0.02
RETRIES: Final = 2


class Run(Protocol):
    """What is measured at one rate."""

    @property
    def rate(self) -> float:
        """Messages a second."""

    @property
    def median_ms(self) -> float:
        """The median latency."""

    @property
    def growth(self) -> float:
        """Seconds of delay gained in a second, from the middle of the run to its end."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing was lost or given up."""

    @property
    def generator_is_limit(self) -> bool:
        """Whether the load generator, and not the system, may be the limit."""


AnyRun = TypeVar("AnyRun", bound=Run)


@dataclass(frozen=True)
class Knee:
    """Where a system leaves its plateau, and where it can do no more.

    ``rate`` is the highest rate on the plateau, ``next_rate`` the lowest one tried that is not;
    None: none was tried. ``held_rate`` is the highest rate that is held. ``is_least`` and
    ``held_is_least``: the generator, or the end of the sweep, came first, so it may be higher.
    """

    rate: float
    next_rate: float | None
    plateau_ms: float
    is_least: bool
    held_rate: float
    held_is_least: bool


def is_on_plateau(run: Run, lowest_ms: float) -> bool:
    """Return whether everything arrived, about as quickly as at lower rates."""
    limit = max(PLATEAU_TIMES * lowest_ms, lowest_ms + PLATEAU_MS)
    return is_held(run) and run.median_ms <= limit


def is_held(run: Run) -> bool:
    """Return whether everything arrived, and no queue grew."""
    return run.is_complete and run.median_ms <= HELD_MS and run.growth <= HELD_GROWTH


def sweep(
    measure: Callable[[float], AnyRun], rates: Iterable[float], refinements: int
) -> tuple[list[AnyRun], Knee]:
    """Measure ascending rates up to the first that is not held, then around both borders.

    A rate that fails is measured again, and the best run counts: a moment in which the machine
    did something else is no knee.
    """
    found = _Sweep(measure)
    passes: Callable[[Run], bool] = found.is_flat
    for rate in rates:
        run = found.try_rate(rate, passes)
        if not found.is_flat(run):
            passes = is_held
        if not is_held(run):
            break
    found.refine(found.is_flat, refinements)
    found.refine(is_held, refinements)
    return found.runs, knee_of(found.runs)


class _Sweep(Generic[AnyRun]):
    def __init__(self, measure: Callable[[float], AnyRun]) -> None:
        self._measure = measure
        self.runs: list[AnyRun] = []

    def is_flat(self, run: Run) -> bool:
        return is_on_plateau(run, min([run.median_ms, *(one.median_ms for one in self.runs)]))

    def try_rate(self, rate: float, passes: Callable[[Run], bool]) -> AnyRun:
        run = self._measure(rate)
        for _ in range(RETRIES):
            if passes(run):
                break
            again = self._measure(rate)
            run = min(run, again, key=lambda one: (not is_held(one), one.median_ms))
        self.runs.append(run)
        return run

    def refine(self, passes: Callable[[Run], bool], times: int) -> None:
        for _ in range(times):
            good, bad = _border(self.runs, passes)
            if good is None or bad is None:
                break
            self.try_rate(math.sqrt(good.rate * bad.rate), passes)


def knee_of(runs: Sequence[Run]) -> Knee:
    """Return the knee of a sweep."""
    lowest = min(run.median_ms for run in runs)
    good, bad = _border(runs, lambda run: is_on_plateau(run, lowest))
    held, lost = _border(runs, is_held)
    return Knee(
        rate=0.0 if good is None else good.rate,
        next_rate=None if bad is None else bad.rate,
        plateau_ms=lowest,
        is_least=bad is None or bad.generator_is_limit,
        held_rate=0.0 if held is None else held.rate,
        held_is_least=lost is None or lost.generator_is_limit,
    )


def _border(runs: Sequence[Run], passes: Callable[[Run], bool]) -> tuple[Run | None, Run | None]:
    """Return the first run that does not pass, by rate, and the one before it."""
    good: Run | None = None
    for run in sorted(runs, key=lambda run: run.rate):
        if not passes(run):
            return good, run
        good = run
    return good, None


def ladder(first: float, last: float, factor: float) -> list[float]:
    """Return rates from the first to the last, each so many times the one before."""
    count = int(math.log(last / first) / math.log(factor) + 1e-9) + 1
    return [first * factor**number for number in range(count)]
