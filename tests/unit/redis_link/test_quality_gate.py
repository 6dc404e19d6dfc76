"""The edges at which a gate refuses, and what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redis_link.generation.generation_losses import Losses
from redis_link.generation.quality_gate import QualityGate, gate_of
from schemas.errors import QualityError, SettingsError
from schemas.settings import QualitySettings, load_settings

LIMITS = QualitySettings(entities_gone=0.25, members_gone=0.5, unresolved=0.1, counted_from=100)
GATE = QualityGate(LIMITS)


def refused(losses: Losses) -> bool:
    try:
        GATE.check_losses(losses, lambda _: None)
    except QualityError:
        return True
    return False


@pytest.mark.parametrize(
    ("losses", "is_refused"),
    [
        (Losses(entities=100, entities_gone=25), False),
        (Losses(entities=100, entities_gone=26), True),
        (Losses(entities=99, entities_gone=99), False),
        (Losses(members=1_000, members_gone=500), False),
        (Losses(members=1_000, members_gone=501), True),
        (Losses(members=99, members_gone=99), False),
        (Losses(), False),
    ],
)
def test_edges_of_losses(losses: Losses, is_refused: bool) -> None:
    assert refused(losses) is is_refused


def test_edges_of_subscriptions_and_world() -> None:
    GATE.check_resolved(1_000, 100, print)
    GATE.check_world(400, 100, print)
    with pytest.raises(QualityError, match=r"101 of 1,000 subscriptions are unresolved \(10\.1%, "):
        GATE.check_resolved(1_000, 101, print)
    with pytest.raises(QualityError, match=r"101 of 400 entities of the world would be gone \(25"):
        GATE.check_world(400, 101, print)


def test_a_limit_of_one_allows_everything_and_no_count_is_an_error() -> None:
    everything = replace(LIMITS, entities_gone=1.0, members_gone=1.0, counted_from=0)
    QualityGate(everything).check_losses(Losses(5, 5, 9, 9), print)
    QualityGate(replace(everything, unresolved=0.0)).check_resolved(0, 0, print)


def test_one_line_with_all_numbers_and_the_way_on() -> None:
    with pytest.raises(QualityError) as caught:
        GATE.check_losses(Losses(400, 300, 2_000, 1_998), print)
    assert str(caught.value) == (
        "nothing was switched: 300 of 400 entities with members would be gone (75.0%, allowed "
        "25.0%); 1,998 of 2,000 members would be gone (99.9%, allowed 50.0%); if this is meant, "
        "start again with --switch-anyway or raise quality.entities_gone and quality.members_gone "
        "in the settings"
    )


def test_switching_anyway_says_what_is_gone() -> None:
    said: list[str] = []
    QualityGate(LIMITS, switch_anyway=True).check_losses(Losses(400, 300, 2_000, 9), said.append)
    [line] = said
    assert line == (
        "note: --switch-anyway was given: 300 of 400 entities with members would be gone "
        "(75.0%, allowed 25.0%)"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("entities_gone", 1.1), ("members_gone", -0.1), ("unresolved", 30.0), ("counted_from", -1)],
)
def test_settings_that_mean_nothing(name: str, value: float) -> None:
    defaults = load_settings(environment={}).quality
    assert gate_of(defaults, switch_anyway=False).limits == defaults
    with pytest.raises(SettingsError, match=f"quality.{name} must be a number"):
        gate_of(replace(defaults, **{name: value}), switch_anyway=False)
