"""Ask a live resolver about the roads of a small city."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from broker.codec.reason_codes import ReasonCode
from broker.resolver.live_resolver import LiveResolver
from broker.resolver.resolver_process import ResolverProcess
from broker.resolver.resolver_requests import Asker, NeighborhoodRefusedError, VersionResolution
from spatial_udfs.entity_table import EntityTable
from world.snapshot import load_snapshot


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


def process_of(resolver: LiveResolver) -> ResolverProcess:
    assert resolver._present is not None
    return resolver._present._supervisor.process
