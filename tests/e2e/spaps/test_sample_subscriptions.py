"""The sample subscriptions make sense on the sample world, and show off the whole language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.language.conditions import (
    And,
    Condition,
    Not,
    Or,
    Relate,
    Topological,
    WithinDistance,
    leaves,
)
from schemas.language.explain import neighborhood_warnings
from schemas.subscription import Subscription
from schemas.topology.relations import LONG_NAMES, always_false_when_far
from spaps.cli.neighborhood_input import read_subscriptions
from spatial_udfs.exact.exact_resolver import ExactResolver
from world.snapshot import load_snapshot

A_MISTAKE = 15


@pytest.fixture(scope="module")
def samples(repository: Path) -> list[Subscription]:
    good, bad = read_subscriptions(repository / "data" / "sample_subscriptions.jsonl")
    assert bad == []
    return good


@pytest.fixture(scope="module")
def resolver(monaco_world: str) -> ExactResolver:
    return ExactResolver(load_snapshot(monaco_world))


def conditions(samples: list[Subscription]) -> Iterator[Condition]:
    for sample in samples:
        for stage in sample.neighborhood.stages:
            yield stage.condition


def parts(condition: Condition) -> Iterator[Condition]:
    yield condition
    match condition:
        case Not(operand):
            yield from parts(operand)
        case And(operands) | Or(operands):
            for operand in operands:
                yield from parts(operand)
        case _:
            return


def test_every_sample_selects_something_in_every_stage_but_the_mistake(
    samples: list[Subscription], resolver: ExactResolver
) -> None:
    assert len(samples) >= 10
    for sample in samples:
        resolution = resolver.resolve(sample.neighborhood)
        sizes = [len(members) for members in resolution.stages]
        assert resolution.missing_refs == ()
        if sample.sub_id == A_MISTAKE:
            assert sizes == [0]
            assert len(neighborhood_warnings(sample.neighborhood)) == 1
        else:
            assert all(sizes), f"{sample.sub_id}: {sizes}"
            assert not neighborhood_warnings(sample.neighborhood)


def test_together_they_use_every_relation_and_every_joint(samples: list[Subscription]) -> None:
    used = [leaf for condition in conditions(samples) for leaf in leaves(condition)]
    assert {leaf.short for leaf in used if isinstance(leaf, Topological)} == set(LONG_NAMES)
    assert any(isinstance(leaf, WithinDistance) for leaf in used)
    assert any(isinstance(leaf, Relate) for leaf in used)
    joints = {type(part) for condition in conditions(samples) for part in parts(condition)}
    assert joints >= {And, Or, Not}
    true_when_far = [c for c in conditions(samples) if not always_false_when_far(c)]
    assert len(true_when_far) >= 2


def test_together_they_use_every_way_to_write_a_stage(samples: list[Subscription]) -> None:
    stages = [stage for sample in samples for stage in sample.neighborhood.stages]
    ref_stages = [stage.ref_stages for stage in stages]
    assert {way for way in ref_stages if isinstance(way, str)} == {"Prev", "Anc"}
    assert any(isinstance(way, tuple) for way in ref_stages)
    assert any(stage.repeat > 1 for stage in stages)
    patterns = [pattern for stage in stages for pattern in stage.categories]
    assert any(pattern.endswith("/#") for pattern in patterns)
    assert any("+" in pattern for pattern in patterns)
    assert any(len(sample.neighborhood.refs) > 1 for sample in samples)
    assert any(not all(sample.neighborhood.visible) for sample in samples)


def test_each_has_a_name_and_a_sentence(samples: list[Subscription], repository: Path) -> None:
    text = (repository / "data" / "sample_subscriptions.md").read_text("utf-8")
    sentences = dict(re.findall(r"^\| (\d+) \| (.+?) \|", text, re.MULTILINE))
    assert sorted(map(int, sentences)) == [sample.sub_id for sample in samples]
    names = {sample.neighborhood.name for sample in samples}
    assert None not in names
    assert len(names) == len(samples)
