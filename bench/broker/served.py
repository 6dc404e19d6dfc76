"""Our broker as the benchmark runs it: everything as ever, but neighborhoods are resolved before.

    python -m bench.broker.served WORLD memory|redis|none [REDIS_URL]

What is measured is the filter and not the resolver, which bench.live measures.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from bench.broker.scene import members_of, number_of
from broker.resolver.live_resolver import ComingMembers, LiveResolution
from broker.resolver.resolver_requests import (
    Asker,
    ResolverCounts,
    ResolverLimits,
    VersionResolution,
)
from broker.resolver.world_resolver import WorldResolver
from broker.shell import service
from broker.shell.runner import run_broker
from schemas.language.neighborhood import neighborhood_hash
from schemas.language.notation import read_neighborhood
from schemas.settings import load_settings


class PreparedResolver:
    """In the place of ``LiveResolver``: knows the members of every neighborhood of the scene."""

    version = 1
    world_id = ""
    is_running = True
    waiting = 0

    def __init__(self, world: str, limits: ResolverLimits) -> None:  # noqa: ARG002 - its shape
        self.counts = ResolverCounts()

    async def start(self, version: int | None = None) -> None:
        """Do nothing: there is nothing to load."""

    async def stop(self) -> None:
        """Do nothing: there is nothing to end."""

    async def prepare(self, version: int) -> bool:  # noqa: ARG002 - its shape
        """Return at once: there is one version."""
        return False

    async def drop_coming(self) -> None:
        """Do nothing: no version ever comes."""

    def switch(self) -> WorldResolver | None:
        """Return nothing: no version ever comes."""
        return None

    def is_current(self, resolution: LiveResolution) -> bool:  # noqa: ARG002 - its shape
        """Return True: there is one version."""
        return True

    async def resolve(self, descriptor: str, asker: Asker) -> LiveResolution:  # noqa: ARG002 - its shape
        """Return the members of the scene."""
        return LiveResolution(await self.resolve_in_force(descriptor))

    async def resolve_in_force(self, descriptor: str) -> VersionResolution:
        """Return the members of the scene."""
        self.counts.resolved += 1
        digest = neighborhood_hash(read_neighborhood(descriptor))
        return VersionResolution(1, descriptor, digest, members_of(number_of(descriptor)))

    async def resolve_coming(self, descriptor: str) -> ComingMembers:
        """Return the members of the scene."""
        return ComingMembers(1, members_of(number_of(descriptor)))


def main() -> None:
    """Serve until it is stopped."""
    world, mode, *url = sys.argv[1:]
    service.LiveResolver = PreparedResolver
    settings = load_settings(
        None,
        {
            "world.dir": world,
            "redis.url": url[0] if url else "none",
            "broker.listen": "127.0.0.1:0",
            "broker.http": "127.0.0.1:0",
            "broker.memberships": mode,
            "broker.allow_anonymous": True,
        },
    )
    # Waiting for a measurement is no reason to be sent away.
    limits = {**settings.broker.limits, "keep_alive": 3_600}
    settings = replace(settings, broker=replace(settings.broker, limits=limits))
    run_broker(settings, lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
