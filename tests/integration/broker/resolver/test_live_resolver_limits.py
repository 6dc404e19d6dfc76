"""The limits of the live resolver: members, time, requests that wait, and who gives up."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from shapely import Point, Polygon

from broker.codec.reason_codes import ReasonCode
from broker.resolver.live_resolver import LiveResolver
from broker.resolver.resolver_requests import Asker, ResolverLimits
from testing.world_writers import entity_rows
from tests.scenes.broker.resolvers import ONE, OTHER, hops, present, process_of, refusal
from tests.strategies.worlds import table_of
from world.versions.store import WorldStore


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
        assert reason is ReasonCode.UNSPECIFIED_ERROR
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
