"""The long soak: rebuilds, kills and churn under load, judged message by message: ``make soak``.

Real servers on this machine alone: redis-server with an append-only file, ``spaps broker``,
``spaps rebuild``. The report says what was done, what went wrong (nothing, it is hoped), and how
long messages took while it was done.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.servers.redis_server import running_redis
from tests.soak.checker import Checker
from tests.soak.figures import SoakFigures, figures_of
from tests.soak.ground import Ground, Plan, make_ground
from tests.soak.report import SoakReport
from tests.soak.scenario import Soak

OUT: Final = Path("out")
PAGE: Final = Path("docs/figures/soak.md")
PLOT: Final = Path("docs/figures/soak.png")
REDIS_OPTIONS: Final = ("--appendonly", "yes", "--appendfsync", "everysec")


def main() -> int:
    """Run, judge, write the report; 0 when nothing was lost and nothing wrong."""
    options = _options()
    plan = Plan(
        publishers=4, rate=options.rate, subscribers=20, nsids=6, changes_a_second=5.0,
        cuts_a_minute=12.0, redis_restart_at=options.rebuilds // 3 + 2,
        broker_kill_at=options.rebuilds // 2 + 2, rollback_at=options.rebuilds - 2,
        rebuild_kills=0.5, sure_kill_at=2, grace_seconds=20.0, pause_seconds=2.0, seed=options.seed,
    )  # fmt: skip
    started = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - started:7.1f} s  {line}", flush=True)

    say(f"{options.rebuilds + 1} editions of a city of {options.entities:,} entities")
    ground = make_ground(options.entities, options.rebuilds + 1, options.neighborhoods, 0.12)
    checked = ground.check_by_definition(random.Random(plan.seed), options.checked)  # noqa: S311
    say(f"{checked} memberships agree with the definition")
    figures = _run(ground, plan, say)
    report = SoakReport(
        options=vars(options) | {"nsids": plan.nsids, "subscribers": plan.subscribers},
        checked_by_definition=checked, command="make soak", figures=figures,
    )  # fmt: skip
    OUT.mkdir(exist_ok=True)
    (OUT / "soak.json").write_text(report.as_json(), "utf-8")
    report.plot(options.plot)
    options.page.write_text(report.markdown(options.plot.name), "utf-8")
    print(report.markdown(options.plot.name))
    print(f"written to {OUT / 'soak.json'}, {options.page} and {options.plot}")
    return 0 if report.is_right else 1


def _run(ground: Ground, plan: Plan, say: Callable[[str], None]) -> SoakFigures:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="spaps-soak-") as name:
        folder = Path(name)
        with running_redis(folder / "redis", *REDIS_OPTIONS) as server:
            soak = Soak(folder, ground, plan, server, say)
            records = asyncio.run(soak.run())
        trouble = [line for line in soak.broker.log().splitlines() if "Traceback" in line]
    say("judging")
    verdict = Checker(ground, records).judge()
    loads = (load, os.getloadavg()[0])
    return figures_of(records, verdict, soak, loads, len(trouble))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rebuilds", type=int, default=20)
    parser.add_argument("--entities", type=int, default=4_000)
    parser.add_argument("--neighborhoods", type=int, default=80, help="different ones")
    parser.add_argument("--rate", type=float, default=200.0, help="messages a second")
    parser.add_argument("--checked", type=int, default=200, help="by the slow definition")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--plot", type=Path, default=PLOT)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
