"""The knee of a sweep is where latency leaves its plateau, and noise is no knee."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from testing.knee import knee_of, ladder, sweep

LADDER = ladder(1_000, 64_000, 2)


@dataclass(frozen=True)
class Run:
    """One rate, measured."""

    rate: float
    median_ms: float
    is_complete: bool = True
    generator_is_limit: bool = False
    growth: float = 0.0


def system(capacity: float) -> Callable[[float], Run]:
    """A system that is quick up to its capacity."""
    return lambda rate: Run(rate, 0.2 if rate <= capacity else 500.0)


def test_a_ladder_has_its_ends() -> None:
    assert LADDER == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000]


def test_refinements_come_closer_to_the_knee() -> None:
    _, coarse = sweep(system(11_000), LADDER, 0)
    runs, fine = sweep(system(11_000), LADDER, 3)
    assert (coarse.rate, coarse.next_rate) == (8_000, 16_000)
    assert 10_000 < fine.rate <= 11_000 < (fine.next_rate or 0) < 12_500
    assert not fine.is_least
    assert max(run.rate for run in runs) == 16_000


def test_one_slow_moment_of_the_machine_is_no_knee() -> None:
    slow_once = {4_000.0}

    def measure(rate: float) -> Run:
        if rate in slow_once:
            slow_once.discard(rate)
            return Run(rate, 300.0)
        return system(20_000)(rate)

    assert sweep(measure, LADDER, 0)[1].rate == 16_000


def test_a_system_may_hold_more_than_its_plateau() -> None:
    def measure(rate: float) -> Run:
        return Run(rate, 0.2 if rate <= 3_000 else 5.0 if rate <= 11_000 else 400.0)

    runs, knee = sweep(measure, LADDER, 3)
    assert 2_600 < knee.rate <= 3_000
    assert 10_000 < knee.held_rate <= 11_000
    assert not knee.held_is_least
    assert max(run.rate for run in runs) == 16_000


def test_losses_end_the_plateau_however_quick_the_rest_is() -> None:
    runs = [Run(1_000, 0.2), Run(2_000, 0.2, is_complete=False), Run(4_000, 0.2)]
    assert knee_of(runs).rate == 1_000


def test_a_queue_that_grows_is_not_held_however_short_it_is() -> None:
    runs = [Run(1_000, 0.2), Run(2_000, 0.3), Run(4_000, 0.4, growth=0.1)]
    knee = knee_of(runs)
    assert (knee.rate, knee.held_rate, knee.held_is_least) == (2_000, 2_000, False)
    assert knee_of([*runs[:2], replace(runs[2], growth=0.01)]).held_rate == 4_000


def test_a_sweep_without_an_end_gives_the_least_that_the_knee_can_be() -> None:
    _, knee = sweep(system(1e9), LADDER, 3)
    assert (knee.rate, knee.next_rate, knee.is_least) == (64_000, None, True)
    assert (knee.held_rate, knee.held_is_least) == (64_000, True)


def test_a_knee_that_the_generator_made_is_marked() -> None:
    busy = Run(2_000, 50.0, generator_is_limit=True)
    assert knee_of([Run(1_000, 0.2), busy]).is_least
    assert knee_of([Run(1_000, 0.2), replace(busy, median_ms=90.0)]).held_is_least
    assert not knee_of([Run(1_000, 0.2), Run(2_000, 50.0)]).is_least


def test_nothing_on_the_plateau_gives_zero() -> None:
    assert knee_of([Run(1_000, 0.2, is_complete=False)]).rate == 0
