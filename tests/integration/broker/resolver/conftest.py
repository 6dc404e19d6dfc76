"""A live resolver that the tests of this folder share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.resolver.live_resolver import LiveResolver
from broker.resolver.resolver_requests import ResolverLimits


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
