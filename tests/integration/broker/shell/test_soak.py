"""The short soak: load and churn through rebuilds, with one kill of each kind.

The long one is ``make soak``. Nothing here is measured: what counts is who got what.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from tests.servers.redis_server import running_redis
from tests.soak.checker import Checker
from tests.soak.ground import Plan, make_ground
from tests.soak.scenario import Soak

PLAN = Plan(
    publishers=3, rate=120.0, subscribers=8, nsids=4, changes_a_second=10.0, cuts_a_minute=30.0,
    redis_restart_at=3, broker_kill_at=4, rollback_at=None, rebuild_kills=0.3,
    sure_kill_at=2, grace_seconds=1.0, pause_seconds=1.0,
)  # fmt: skip


def test_none_lost_none_wrong(tmp_path: Path) -> None:
    ground = make_ground(entities=600, editions=4, neighborhoods=24, share=0.3)
    ground.check_by_definition(random.Random(4), 40)  # noqa: S311 - no secret
    options = ("--appendonly", "yes", "--appendfsync", "everysec")
    with running_redis(tmp_path / "redis", *options) as server:
        soak = Soak(tmp_path, ground, PLAN, server, print)
        records = asyncio.run(soak.run())
    assert "Traceback" not in soak.broker.log()
    verdict = Checker(ground, records).judge()
    assert verdict.findings == [], verdict.findings[:5]
    # It was a soak and no standstill.
    kinds = {event.kind for event in records.events}
    assert kinds >= {"rebuild", "rebuild killed", "Redis restarted", "broker killed"}
    assert {records.versions[seen.generation] for seen in records.in_broker} == {1, 2, 3, 4}
    assert verdict.owed > 1_000
    assert verdict.refused < verdict.messages / 10
    # The control on real logs: one delivery less, and the checker says so.
    del records.received[len(records.received) // 2]
    assert Checker(ground, records).judge().kinds() == {"lost"}
