"""The live resolver with its real process: what it gives, keeps, refuses and survives."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shapely import Point, Polygon

from broker.codec.reason_codes import ReasonCode
from broker.resolver.live_resolver import LiveResolver
from broker.resolver.resolver_process import ResolverLostError, ResolverProcess
from broker.resolver.resolver_requests import (
    Asker,
    NeighborhoodRefusedError,
    ResolverLimits,
    VersionResolution,
)
from schemas.errors import WorldError
from schemas.language.notation import read_neighborhood
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver
from testing.world_writers import entity_rows
from tests.strategies.worlds import table_of
from world.snapshot import load_snapshot
from world.versions.store import WorldStore


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


ONE, OTHER = Asker("user one", "c"), Asker("user other", "c")


async def present(resolver: LiveResolver, descriptor: str, asker: Asker = ONE) -> VersionResolution:
    """What the world in force gives."""
    return (await resolver.resolve(descriptor, asker)).present


async def refusal(
    resolver: LiveResolver, descriptor: str, asker: Asker = ONE
) -> tuple[ReasonCode, str]:
    with pytest.raises(NeighborhoodRefusedError) as caught:
        await resolver.resolve(descriptor, asker)
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


def test_who_asks_beside_one_with_other_limits_has_its_own(
    runner: asyncio.Runner, resolver: LiveResolver, city: Path
) -> None:
    """A subscription in force must not be refused because a client may not have as much."""
    resolver._limits = ResolverLimits(members=1)
    # Nothing that the process remembers from another test.
    text = hops(city).replace("road/#", "road/#,beside")

    async def ask() -> None:
        new = asyncio.create_task(refusal(resolver, text))
        await asyncio.sleep(0)
        in_force = asyncio.create_task(resolver.resolve_in_force(text))
        assert (await new)[0] is ReasonCode.QUOTA_EXCEEDED
        assert len((await in_force).peids) > 3

    runner.run(ask())


def test_what_was_resolved_for_others_is_refused_to_whom_it_is_too_much(
    runner: asyncio.Runner, resolver: LiveResolver, city: Path
) -> None:
    """Whether a neighborhood is granted does not depend on who asked for it before."""
    text = hops(city).replace("road/#", "road/#,before")

    async def ask() -> None:
        members = len((await resolver.resolve_in_force(text)).peids)
        assert members > 3
        resolver._limits = ResolverLimits(members=1)
        # The same text, which the broker remembers, and the same meaning, which the process does.
        assert (await refusal(resolver, text))[0] is ReasonCode.QUOTA_EXCEEDED
        assert (await refusal(resolver, f" {text}"))[0] is ReasonCode.QUOTA_EXCEEDED
        resolver._limits = ResolverLimits(members=1_000_000)
        reused = resolver.counts.reused
        assert len((await present(resolver, text)).peids) == members
        assert resolver.counts.reused == reused + 1

    runner.run(ask())


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
        asked = [
            asyncio.create_task(present(resolver, hops(city, repeat=one), asker))
            for one, asker in ((2, ONE), (3, ONE), (4, OTHER))
        ]
        await asyncio.sleep(0)
        reason, text = await refusal(resolver, hops(city, repeat=5), ONE)
        assert reason is ReasonCode.QUOTA_EXCEEDED
        assert (
            text == "too many neighborhoods of this user or address are being resolved, try later"
        )
        asked.append(asyncio.create_task(present(resolver, hops(city, repeat=5), OTHER)))
        await asyncio.sleep(0)
        third = Asker("user third", "c")
        reason, text = await refusal(resolver, hops(city, repeat=6), third)
        assert reason is ReasonCode.QUOTA_EXCEEDED
        assert text == "too many neighborhoods of the broker are being resolved, try later"
        assert resolver.counts.crowded == 2
        await asyncio.gather(*asked)
        assert resolver.waiting == 0
        await present(resolver, hops(city, repeat=6), third)

    resolver._limits = ResolverLimits(waiting=4, waiting_of_owner=2)
    resolver.counts.crowded = 0
    runner.run(ask())


def test_who_gives_up_while_it_waits_leaves_its_turn_to_others(
    runner: asyncio.Runner, resolver: LiveResolver, city: Path
) -> None:
    async def ask() -> None:
        tasks = [
            asyncio.create_task(present(resolver, hops(city, repeat=number)))
            for number in range(2, 6)
        ]
        await asyncio.sleep(0)
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert resolver.waiting == 0
        assert len((await present(resolver, hops(city, repeat=5))).peids) > 3

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

        asked = asyncio.create_task(present(resolver, of_the_other + " "))
        await asyncio.sleep(0)
        process_of(resolver).kill()
        again = await asked
        assert again.version == 2
        assert np.array_equal(again.peids, second.peids)
        await resolver.stop()

    runner.run(scenario())


def process_of(resolver: LiveResolver) -> ResolverProcess:
    assert resolver._present is not None
    return resolver._present._supervisor.process


def test_what_ends_the_process_is_refused_and_what_was_beside_it_is_not(
    runner: asyncio.Runner, city: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One neighborhood ends the process each time it is asked, as a crash of GEOS would."""
    bad = hops(city) + "  "
    ask = ResolverProcess.ask

    async def deadly(self: ResolverProcess, descriptor: str, *limits: Any) -> Any:
        if descriptor == bad:
            self.kill()
        return await ask(self, descriptor, *limits)

    monkeypatch.setattr(ResolverProcess, "ask", deadly)

    async def scenario() -> None:
        resolver = LiveResolver(str(city), ResolverLimits(seconds=60))
        await resolver.start(version=1)
        good = [asyncio.create_task(present(resolver, hops(city, one), OTHER)) for one in (1, 2)]
        reason, text = await refusal(resolver, bad, ONE)
        assert reason is ReasonCode.UNSPECIFIED_ERROR
        assert "ended twice while it resolved this neighborhood" in text
        for found in await asyncio.gather(*good):
            assert len(found.peids) > 0
        assert resolver.counts.restarts == 2
        assert len((await present(resolver, hops(city, 4))).peids) > 0
        await resolver.stop()

    runner.run(scenario())


def spiky(vertices: int, east: float, seed: int) -> Polygon:
    """An area whose border jumps from vertex to vertex, so that two of them cross everywhere."""
    angles = np.linspace(0, 2 * np.pi, vertices, endpoint=False)
    radii = 100 + 20 * np.random.default_rng(seed).random(vertices)
    return Polygon(np.c_[east + radii * np.cos(angles), radii * np.sin(angles)])


def test_heavy_polygons_hold_the_limit_and_nobody_waits_for_them(
    runner: asyncio.Runner, tmp_path: Path
) -> None:
    """Two areas of 200,000 vertices take GEOS far longer than the limit, in one call."""
    heavy = [spiky(200_000, 0, 1), spiky(200_000, 50, 2)]
    points = [Point(1_000, 0), Point(1_000, 0)]
    rows = [(peid, ("a",), one) for peid, one in enumerate([*heavy, *points])]
    WorldStore(str(tmp_path)).write_version(entity_rows(table_of(rows)), srid=25833)

    async def scenario() -> None:
        resolver = LiveResolver(str(tmp_path), ResolverLimits(seconds=3))
        await resolver.start()
        asked = asyncio.create_task(refusal(resolver, "({1},{#},O)", ONE))
        await asyncio.sleep(0.5)
        assert (await present(resolver, "({2},{#},E)", OTHER)).peids.tolist() == [3]
        assert not asked.done(), "the light one did not wait for the heavy one"
        reason, text = await asked
        assert (reason, text) == (
            ReasonCode.QUOTA_EXCEEDED,
            "two entities with very many vertices take too long to relate",
        )
        assert resolver.counts.restarts == 0, "nobody lost the process over it"
        await resolver.stop()

    runner.run(scenario())


def test_a_request_that_is_late_costs_nobody_else_an_answer(
    runner: asyncio.Runner, city: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.resolver.resolver_process.LATENESS", 0.1)

    async def scenario() -> None:
        resolver = LiveResolver(str(city), ResolverLimits(seconds=60))
        await resolver.start(version=1)
        os.kill(process_of(resolver)._process._process.pid, signal.SIGSTOP)
        patient = asyncio.create_task(present(resolver, hops(city, 2), OTHER))
        await asyncio.sleep(0)
        resolver._limits = ResolverLimits(seconds=0.1)
        reason, text = await refusal(resolver, hops(city, 3), ONE)
        assert (reason, text) == (
            ReasonCode.QUOTA_EXCEEDED,
            "the neighborhood took too long to resolve",
        )
        assert len((await patient).peids) > 0
        assert (resolver.counts.late, resolver.counts.restarts) == (1, 1)
        assert resolver.counts.asked_again == 1
        await resolver.stop()

    runner.run(scenario())


def test_a_world_that_is_gone_is_waited_for_so_long_and_no_longer(
    runner: asyncio.Runner, city: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.resolver.resolver_process.RESTART_DELAY", 0.01)
    start = ResolverProcess.start
    is_away = True

    async def start_when_back(world: str, version: int | None) -> ResolverProcess:
        if is_away:
            raise WorldError("not there")
        return await start(world, version)

    async def scenario() -> None:
        nonlocal is_away
        resolver = LiveResolver(str(city), ResolverLimits(seconds=0.2))
        await resolver.start(version=1)
        monkeypatch.setattr(ResolverProcess, "start", start_when_back)
        process_of(resolver).kill()
        in_force = asyncio.create_task(resolver.resolve_in_force(hops(city)))
        reason, text = await refusal(resolver, hops(city, 2))
        assert (reason, text) == (
            ReasonCode.UNSPECIFIED_ERROR,
            "the resolver is starting again, try later",
        )
        assert not resolver.is_running
        assert not in_force.done(), "what was granted before waits on"
        is_away = False
        assert len((await in_force).peids) > 0
        assert resolver.is_running
        await resolver.stop()

    runner.run(scenario())


def test_while_another_version_is_loaded_both_answer(runner: asyncio.Runner, city: Path) -> None:
    only_before = min(set(snapshot(city, 1).peids) - set(snapshot(city, 2).peids))
    both = min(set(snapshot(city, 1).peids) & set(snapshot(city, 2).peids))
    vanishing, staying = (f"({{{peid}}},{{#}},I)" for peid in (only_before, both))

    async def scenario() -> None:
        resolver = LiveResolver(str(city), ResolverLimits())
        await resolver.start(version=1)
        alone = await resolver.resolve(staying, ONE)
        assert not await resolver.prepare(1)
        assert resolver.is_current(alone)
        assert await resolver.prepare(2)
        assert not resolver.is_current(alone), "it says nothing about the world that comes"
        found = await resolver.resolve(staying, ONE)
        assert (found.present.version, resolver.version) == (1, 1)
        assert found.coming is not None
        for version, peids in ((1, found.present.peids), (2, found.coming.peids)):
            resolved = ExactResolver(snapshot(city, version)).resolve(read_neighborhood(staying))
            assert np.array_equal(peids, resolved.peids())
        gone = await resolver.resolve(vanishing, ONE)
        assert gone.coming is not None
        assert gone.coming.lacks_references
        assert len(gone.coming.peids) == 0
        before = resolver.switch()
        assert not resolver.is_current(found)
        assert (await resolver.resolve(staying, ONE)).coming is None
        assert (await resolver.resolve_coming(vanishing)).lacks_references
        assert before is not None
        await before.stop()
        await resolver.prepare(1)
        await resolver.drop_coming()
        assert resolver.is_current(await resolver.resolve(staying, ONE))
        await resolver.stop()

    runner.run(scenario())


def test_a_process_that_ends_while_it_loads_is_started_again(
    runner: asyncio.Runner, city: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.resolver.live_resolver.RESTART_DELAY", 0.0)
    start, lost = ResolverProcess.start, [1, 2]

    async def start_at_last(world: str, version: int | None) -> ResolverProcess:
        if lost:
            lost.pop()
            raise ResolverLostError("it ended while loading")
        return await start(world, version)

    monkeypatch.setattr(ResolverProcess, "start", start_at_last)

    async def scenario() -> None:
        resolver = LiveResolver(str(city), ResolverLimits())
        await resolver.start(version=1)
        assert resolver.version == 1
        await resolver.stop()
        lost.extend(range(100))
        with pytest.raises(ResolverLostError):
            await resolver.start(version=1)

    runner.run(scenario())


def test_no_world_is_an_error_in_words(runner: asyncio.Runner, tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="import one with 'spaps import'"):
        runner.run(LiveResolver(str(tmp_path), ResolverLimits()).start())
