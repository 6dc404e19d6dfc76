"""Our broker as the evaluation runs it.

    python -m bench.evaluation.compared.served --world DIR --mode memory|redis|none|database

With ``--prepared SUBSCRIPTIONS,MEMBERS`` the members of the workload's neighborhoods are known
before, so that the filter is measured and not the resolver; others are resolved in the world. With
``--mode database`` memberships are in PostgreSQL.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any, Final

from bench.evaluation.compared.database import (
    Database,
    DatabaseMemberships,
    DatabaseReader,
    DatabaseRegistry,
)
from bench.evaluation.workload import DisjointWorkload, is_of_workload, reference_of
from broker.core.broker_core import Core
from broker.filter.memberships import Memberships
from broker.ports import Stores
from broker.resolver.live_resolver import ComingMembers, LiveResolution, LiveResolver
from broker.resolver.resolver_requests import Asker, VersionResolution
from broker.shell import service
from broker.shell.runner import run_broker
from schemas.language.neighborhood import neighborhood_hash
from schemas.language.notation import read_neighborhood
from schemas.settings import load_settings

DATABASE: Final = "database"
# All clients come from one address, without names; and one that waits is to be measured.
LIMITS: Final = {
    "keep_alive": 3_600, "sessions_of_address": 100_000, "waiting_neighborhoods": 10_000,
    "waiting_neighborhoods_of_owner": 10_000, "waiting_subscribes": 10_000,
    "subscription_bytes": 2_000_000_000, "total_subscription_bytes": 8_000_000_000,
}  # fmt: skip


def prepared(workload: DisjointWorkload) -> type[LiveResolver]:
    """Return a resolver that knows the members of a workload, and resolves everything else."""

    class WorkloadResolver(LiveResolver):
        async def resolve(self, descriptor: str, asker: Asker) -> LiveResolution:
            """Return the members of the workload, or those in the world."""
            if not is_of_workload(descriptor):
                return await super().resolve(descriptor, asker)
            return LiveResolution(await self.resolve_in_force(descriptor))

        async def resolve_in_force(self, descriptor: str) -> VersionResolution:
            """Return the same for a subscription that was granted before."""
            if not is_of_workload(descriptor):
                return await super().resolve_in_force(descriptor)
            self.counts.resolved += 1
            digest = neighborhood_hash(read_neighborhood(descriptor))
            members = workload.members_of_reference(reference_of(descriptor))
            return VersionResolution(self.version, descriptor, digest, members)

        async def resolve_coming(self, descriptor: str) -> ComingMembers:
            """Return the same in the coming world."""
            if not is_of_workload(descriptor):
                return await super().resolve_coming(descriptor)
            members = workload.members_of_reference(reference_of(descriptor))
            return ComingMembers(self.version, members)

    return WorkloadResolver


def use_database(dsn: str, loaded: int, *, batched: bool) -> None:
    """Let the broker that is built next keep its memberships in a database."""
    cores: list[Core] = []

    def core(**parts: Any) -> Core:
        cores.append(Core(**parts))
        return cores[-1]

    # Made inside the running event loop, as the broker's own parts are.
    shared: list[Database] = []

    def database() -> Database:
        if not shared:
            shared.append(Database(dsn))
        return shared[0]

    def stores() -> Stores:
        reader = DatabaseReader(
            database(), lambda: cores[0].neighborhoods.slots_by_sub_id, batched=batched
        )
        return Stores(registry=DatabaseRegistry(database(), loaded), reader=reader)

    def memberships(_mode: str, *, has_redis: bool) -> Memberships:  # noqa: ARG001 - its shape
        return DatabaseMemberships()

    put_in_place("Core", core)
    put_in_place("memberships_of_mode", memberships)
    put_in_place("Stores", stores)


def put_in_place(name: str, part: object) -> None:
    """Let the broker that is built next use a part instead of its own."""
    if not hasattr(service, name):
        raise AttributeError(f"the broker is no longer made of {name}")
    setattr(service, name, part)


def main() -> None:
    """Serve until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--world", required=True)
    parser.add_argument("--mode", required=True)
    parser.add_argument("--redis", default="none")
    parser.add_argument("--prepared", default="", help="subscriptions and members of each: 1000,50")
    parser.add_argument("--dsn", default="")
    parser.add_argument("--batched", action="store_true", help="one query for each read")
    parser.add_argument("--loaded", type=int, default=0, help="subscriptions with rows")
    options = parser.parse_args()
    if options.prepared:
        subscriptions, members = map(int, options.prepared.split(","))
        put_in_place("LiveResolver", prepared(DisjointWorkload(subscriptions, members)))
    if options.mode == DATABASE:
        use_database(options.dsn, options.loaded, batched=options.batched)
    settings = load_settings(
        None,
        {
            "world.dir": options.world,
            "redis.url": options.redis,
            "broker.listen": "127.0.0.1:0",
            "broker.http": "127.0.0.1:0",
            "broker.control": "none",
            "broker.memberships": "memory" if options.mode == DATABASE else options.mode,
            "broker.allow_anonymous": True,
        },
    )
    limits = {**settings.broker.limits, **LIMITS}
    settings = replace(settings, broker=replace(settings.broker, limits=limits))
    run_broker(settings, lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
