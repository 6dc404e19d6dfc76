"""The live resolver with its real process: what it gives, keeps, refuses and survives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from broker.codec.reason_codes import ReasonCode
from broker.live_resolver import LiveResolver
from broker.world_resolver import NeighborhoodRefusedError, ResolverLimits, VersionResolution
from schemas.errors import WorldError
from schemas.reading import read_neighborhood
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact_resolver import ExactResolver
from world.snapshot import load_snapshot


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all tests here, so that they can share a process."""
    with asyncio.Runner() as running:
        yield running


@pytest.fixture(scope="module")
def shared(runner: asyncio.Runner, city: Path) -> Iterator[LiveResolver]:
    resolver = LiveResolver(str(city), ResolverLimits())
    runner.run(resolver.start(version=1))
    yield resolver
    runner.run(resolver.stop())


@pytest.fixture
def resolver(shared: LiveResolver) -> LiveResolver:
    """A resolver that has counted and remembered nothing yet."""
    shared.counts.resolved = shared.counts.reused = shared.counts.refused = 0
    assert shared._present is not None
    shared._present._known.clear()
    shared._limits = ResolverLimits()
    return shared


@cache
def snapshot(city: Path, version: int) -> EntityTable:
    return load_snapshot(str(city), version)


def a_road(city: Path, version: int = 1) -> int:
    table = snapshot(city, version)
    return next(
        int(peid)
        for at, peid in enumerate(table.peids)
        if any(category.startswith("road/") for category in table.categories_at(at))
    )


def hops(city: Path, repeat: int = 3) -> str:
    """Three and more roads in a row, from the first road of version 1."""
    return f"({{{a_road(city)}}},{{road/#}},T) • {repeat}(Prev,{{road/#}},T)"


async def present(resolver: LiveResolver, descriptor: str) -> VersionResolution:
    """What the world in force gives."""
    return (await resolver.resolve(descriptor)).present


async def refusal(resolver: LiveResolver, descriptor: str) -> tuple[ReasonCode, str]:
    with pytest.raises(NeighborhoodRefusedError) as caught:
        await resolver.resolve(descriptor)
    return caught.value.reason, str(caught.value)


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


def test_what_is_wrong_with_a_descriptor_is_told(
    runner: asyncio.Runner, resolver: LiveResolver
) -> None:
    wrong = json.dumps({"refs": [1], "stages": [{"cats": ["a"], "cond": "Z"}]})
    reason, text = runner.run(refusal(resolver, wrong))
    assert reason is ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
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
    impossible, missing = found.warnings
    assert "C AND B" in impossible
    assert missing == "references that do not exist: 1, 2"


def test_limits_on_members_and_time(
    runner: asyncio.Runner, resolver: LiveResolver, city: Path
) -> None:
    # Three that have the same members, and yet none is answered out of memory.
    texts = [hops(city).replace("road/#", f"road/#,nothing-{at}") for at in range(3)]
    members = len(runner.run(present(resolver, texts[0])).peids)
    resolver._limits = ResolverLimits(members=members)
    assert len(runner.run(present(resolver, texts[1])).peids) == members

    resolver._limits = ResolverLimits(members=members - 1)
    reason, text = runner.run(refusal(resolver, texts[2]))
    assert reason is ReasonCode.QUOTA_EXCEEDED
    assert f"than the {members - 1} allowed" in text

    resolver._limits = ResolverLimits(seconds=0.0)
    reason, text = runner.run(refusal(resolver, hops(city, repeat=7)))
    assert reason is ReasonCode.QUOTA_EXCEEDED
    assert "in the time allowed" in text


def test_only_so_many_wait_at_once(
    runner: asyncio.Runner, resolver: LiveResolver, city: Path
) -> None:
    async def ask() -> None:
        first = asyncio.create_task(present(resolver, hops(city)))
        await asyncio.sleep(0)
        reason, _ = await refusal(resolver, hops(city, repeat=2))
        assert reason is ReasonCode.QUOTA_EXCEEDED
        await first
        await present(resolver, hops(city, repeat=2))

    resolver._limits = ResolverLimits(waiting=1)
    runner.run(ask())


def test_versions_change_and_a_killed_process_is_replaced(
    runner: asyncio.Runner, city: Path
) -> None:
    only_before = min(set(snapshot(city, 1).peids) - set(snapshot(city, 2).peids))
    of_one_version = f"({{{only_before}}},{{#}},I)"
    of_the_other = f"({{{a_road(city, 2)}}},{{#}},I)"

    async def scenario() -> None:
        resolver = LiveResolver(str(city), ResolverLimits())
        await resolver.start(version=1)
        first = await present(resolver, of_one_version)
        assert await resolver.prepare(2)
        before = resolver.switch()
        assert before is not None
        await before.stop()
        _, text = await refusal(resolver, of_one_version)
        assert text == f"no reference exists in world version 2: {only_before}"
        second = await present(resolver, of_the_other)
        assert (first.version, second.version) == (1, 2)

        asked = asyncio.create_task(refusal(resolver, of_one_version))
        await asyncio.sleep(0)
        assert resolver._present is not None
        resolver._present._process.kill()
        reason, _ = await asked
        assert reason is ReasonCode.UNSPECIFIED_ERROR
        again = None
        while again is None:
            try:
                again = await present(resolver, of_the_other + " ")
            except NeighborhoodRefusedError:
                await asyncio.sleep(0.05)
        assert again.version == 2
        assert np.array_equal(again.peids, second.peids)
        await resolver.stop()

    runner.run(scenario())


def test_while_another_version_is_loaded_both_answer(runner: asyncio.Runner, city: Path) -> None:
    only_before = min(set(snapshot(city, 1).peids) - set(snapshot(city, 2).peids))
    both = min(set(snapshot(city, 1).peids) & set(snapshot(city, 2).peids))
    vanishing, staying = (f"({{{peid}}},{{#}},I)" for peid in (only_before, both))

    async def scenario() -> None:
        resolver = LiveResolver(str(city), ResolverLimits())
        await resolver.start(version=1)
        alone = await resolver.resolve(staying)
        assert not await resolver.prepare(1)
        assert resolver.is_current(alone)
        assert await resolver.prepare(2)
        assert not resolver.is_current(alone), "it says nothing about the world that comes"
        found = await resolver.resolve(staying)
        assert (found.present.version, resolver.version) == (1, 1)
        assert found.coming is not None
        for version, peids in ((1, found.present.peids), (2, found.coming.peids)):
            resolved = ExactResolver(snapshot(city, version)).resolve(read_neighborhood(staying))
            assert np.array_equal(peids, resolved.peids())
        gone = await resolver.resolve(vanishing)
        assert gone.coming is not None
        assert gone.coming.lacks_references
        assert len(gone.coming.peids) == 0
        before = resolver.switch()
        assert not resolver.is_current(found)
        assert (await resolver.resolve(staying)).coming is None
        assert (await resolver.resolve_coming(vanishing)).lacks_references
        assert before is not None
        await before.stop()
        await resolver.prepare(1)
        await resolver.drop_coming()
        assert resolver.is_current(await resolver.resolve(staying))
        await resolver.stop()

    runner.run(scenario())


def test_no_world_is_an_error_in_words(runner: asyncio.Runner, tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="import one with 'spaps import'"):
        runner.run(LiveResolver(str(tmp_path), ResolverLimits()).start())
