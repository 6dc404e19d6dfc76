"""The live resolver with its real process: members, warnings, refusals, and what is remembered."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np

from broker.codec.reason_codes import ReasonCode
from broker.resolver.live_resolver import LiveResolver
from schemas.language.notation import read_neighborhood
from spatial_udfs.exact.exact_resolver import ExactResolver
from tests.scenes.broker.resolvers import a_road, hops, present, refusal, snapshot


def test_it_gives_what_the_exact_resolver_gives(
    runner: asyncio.Runner, resolver: LiveResolver, city: Path
) -> None:
    found = runner.run(present(resolver, hops(city)))
    expected = ExactResolver(snapshot(city, 1)).resolve(read_neighborhood(hops(city))).peids()
    assert len(expected) > 3
    assert np.array_equal(found.peids, expected)
    assert (found.version, found.warnings) == (1, ())
    assert read_neighborhood(found.descriptor) == read_neighborhood(hops(city))
    assert json.loads(found.descriptor)["refs"] == [a_road(city)]
    again = runner.run(present(resolver, found.descriptor))
    assert (again.descriptor, again.neighborhood_hash) == (
        found.descriptor,
        found.neighborhood_hash,
    )


def test_a_text_that_is_known_is_answered_at_once(
    runner: asyncio.Runner, resolver: LiveResolver, city: Path
) -> None:
    found = runner.run(present(resolver, hops(city)))
    assert runner.run(present(resolver, hops(city))) is found
    assert (resolver.counts.resolved, resolver.counts.reused) == (1, 1)


def test_the_hash_is_that_of_the_meaning(
    runner: asyncio.Runner, resolver: LiveResolver, city: Path
) -> None:
    text = hops(city)
    first = runner.run(present(resolver, text))
    second = runner.run(present(resolver, text.replace("road/#},T)", "road/#, road/#},T AND T)")))
    third = runner.run(present(resolver, hops(city, repeat=1)))
    assert first.neighborhood_hash == second.neighborhood_hash != third.neighborhood_hash
    assert np.array_equal(first.peids, second.peids)
    assert len(third.peids) < len(first.peids)


def test_many_who_ask_at_once_are_served_by_one_resolution(
    runner: asyncio.Runner, resolver: LiveResolver, city: Path
) -> None:
    async def ask() -> None:
        answers = await asyncio.gather(*(present(resolver, hops(city)) for _ in range(20)))
        assert all(answer is answers[0] for answer in answers)

    runner.run(ask())
    assert (resolver.counts.resolved, resolver.counts.reused, resolver.waiting) == (1, 19, 0)


def test_one_who_gives_up_takes_nothing_from_the_others(
    runner: asyncio.Runner, resolver: LiveResolver, city: Path
) -> None:
    async def ask() -> None:
        impatient = asyncio.create_task(present(resolver, hops(city)))
        patient = asyncio.create_task(present(resolver, hops(city)))
        await asyncio.sleep(0)
        impatient.cancel()
        assert len((await patient).peids) > 3

    runner.run(ask())


def test_what_is_wrong_with_a_descriptor_is_answered(
    runner: asyncio.Runner, resolver: LiveResolver
) -> None:
    wrong = json.dumps({"refs": [1], "stages": [{"cats": ["a"], "cond": "Z"}]})
    reason, text = runner.run(refusal(resolver, wrong))
    assert reason is ReasonCode.TOPIC_FILTER_INVALID
    assert text.startswith("stage 1: ")
    reason, text = runner.run(refusal(resolver, "({1,2},{road/#},T)"))
    assert reason is ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
    assert text == "no reference exists in world version 1: 1, 2"
    assert resolver.counts.refused == 2


def test_warnings_come_with_the_members(
    runner: asyncio.Runner, resolver: LiveResolver, city: Path
) -> None:
    found = runner.run(present(resolver, f"({{1,2,{a_road(city)}}},{{road/#}},C AND T)"))
    assert len(found.peids) == 0
    impossible, missing, empty = found.warnings
    assert "C AND B" in impossible
    assert missing == "references that do not exist: 1, 2"
    assert empty == "the neighborhood is empty in world version 1"


def test_a_pattern_without_a_category_is_warned_about(
    runner: asyncio.Runner, resolver: LiveResolver, city: Path
) -> None:
    found = runner.run(
        present(resolver, f"({{{a_road(city)}}},{{road/#,raod/#,+/none/+}},T) • (Prev,{{zoo}},T)")
    )
    assert len(found.peids) > 0
    assert found.warnings == (
        "stage 1: no category of world version 1 matches raod/#; did you mean road/#?",
        "stage 1: no category of world version 1 matches +/none/+; did you mean zone/#?",
        "stage 2: no category of world version 1 matches zoo",
    )
    many = ",".join(f"none{number}" for number in range(7))
    *_, more, empty = runner.run(present(resolver, f"({{{a_road(city)}}},{{{many}}},T)")).warnings
    assert more == "2 more category patterns match no category"
    assert "is empty" in empty
