"""The process of the live resolver: versions that change, a killed process, a lost world."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from broker.codec.reason_codes import ReasonCode
from broker.resolver.live_resolver import LiveResolver
from broker.resolver.resolver_process import ResolverLostError, ResolverProcess
from broker.resolver.resolver_requests import ResolverLimits
from schemas.errors import WorldError
from schemas.language.notation import read_neighborhood
from spatial_udfs.exact.exact_resolver import ExactResolver
from tests.scenes.broker.resolvers import (
    ONE,
    OTHER,
    a_road,
    hops,
    present,
    process_of,
    refusal,
    snapshot,
)


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


def test_the_process_does_without_pandas(runner: asyncio.Runner, city: Path) -> None:
    """Loading it would be half of the time until the process answers."""
    resolver = LiveResolver(str(city), ResolverLimits())
    runner.run(resolver.start(version=1))
    runner.run(present(resolver, hops(city)))
    process = process_of(resolver)._process._process.pid
    loaded = Path(f"/proc/{process}/maps").read_text()
    runner.run(resolver.stop())
    assert "libarrow" in loaded
    assert "pandas" not in loaded


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


def test_a_world_that_is_gone_is_waited_for_so_long_and_no_longer(
    runner: asyncio.Runner, city: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.resolver.resolver_supervisor.RESTART_DELAY", 0.01)
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
