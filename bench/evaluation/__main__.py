"""The evaluation of the original design, repeated here: ``make evaluation``.

Core 0 is the system's, with its store; core 1 the load generator's. Writes docs/evaluation.md, and
its figures as JSON and as plots. Results are kept after each step. The page is written from what
is there, also when the run is stopped (Ctrl-C); ``--resume`` goes on where it stopped.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import signal
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Final

from bench.evaluation.berlin import CityWorkload, city_steps
from bench.evaluation.compared.servers import (
    LOAD_CORE,
    SYSTEM_CORE,
    Servers,
    dsn_of,
    on_core,
)
from bench.evaluation.compared.systems import REDIS
from bench.evaluation.compared.worlds import Worlds
from bench.evaluation.filtering import filtering_steps
from bench.evaluation.plan import Plan, Row, Say, Step
from bench.evaluation.report.page import write_page
from bench.evaluation.report.plots import plot_all
from bench.evaluation.scope import scope_steps
from bench.evaluation.sizes import SIZES, Sizes
from bench.evaluation.throughput import throughput_steps
from redis_link.connection.client import connect
from redis_link.connection.embedded import EmbeddedRedis
from testing.postgis_server import PostgisMissingError, postgis_server
from testing.processor import cpu_name
from world.snapshot import load_snapshot

REPOSITORY: Final = Path(__file__).resolve().parents[2]
DATA: Final = REPOSITORY.parent / "shared" / "data"
DOCS: Final = Path("docs")
FIGURES: Final = "evaluation.json"
EXPERIMENTS: Final = ("throughput", "filtering", "city", "scope")
PRIORITY: Final = -10


def main() -> int:
    """Measure and write; 2 when it cannot be measured here, 1 when something was left out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--only", choices=EXPERIMENTS, action="append", help="one experiment")
    parser.add_argument("--step", default="", help="only steps whose names contain this text")
    parser.add_argument("--minutes", type=float, help="begin nothing that would end later")
    parser.add_argument("--resume", action="store_true", help="keep what was measured before")
    parser.add_argument("--list", action="store_true", help="print the steps, measure nothing")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with berlin/world.parquet")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder of the page")
    parser.add_argument(
        "--from-figures", action="store_true", help="write plots and page again, measure nothing"
    )
    options = parser.parse_args()
    sizes = SIZES[options.size]
    if options.minutes is None:
        options.minutes = sizes.minutes
    figures = options.out / "figures" / FIGURES
    if options.from_figures:
        results = json.loads(figures.read_text("utf-8"))
    elif len(os.sched_getaffinity(0)) < 2:
        print("two cores are needed: one for a system, one for its load", file=sys.stderr)
        return 2
    else:
        figures.parent.mkdir(parents=True, exist_ok=True)
        results = begin(sizes, figures if options.resume else None)
        measure(sizes, options, figures, results)
        if options.list:
            return 0
    plot_all(results, figures.parent)
    print(f"written: {write_page(results, options.out)}")
    for step, reason in results["left_out"].items():
        print(f"left out: {step}: {reason}", file=sys.stderr)
    return 1 if results["left_out"] else 0


def begin(sizes: Sizes, before: Path | None) -> Row:
    """Return the results so far: none, or those of a run of the same size and machine."""
    machine = {"cpu": cpu_name(), "cores": os.cpu_count()}
    load_average = round(os.getloadavg()[0], 2)
    if before is not None and before.is_file():
        results: Row = json.loads(before.read_text("utf-8"))
        if (results["size"], results["machine"]) == (sizes.name, machine):
            results["starts"] += 1
            results["load_average"] = max(results["load_average"], load_average)
            return results
    return {
        "size": sizes.name, "command": command_of(sizes), "load_average": load_average,
        "machine": machine, "starts": 1, "minutes": 0.0, "versions": {}, "done": {}, "left_out": {},
        "subscriptions": sizes.throughput[0], "members": sizes.throughput[1],
        "messages": sizes.messages,
    }  # fmt: skip


def measure(sizes: Sizes, options: argparse.Namespace, figures: Path, results: Row) -> None:
    """Do all steps; return early when interrupted."""
    begun, before = time.monotonic(), results["minutes"]

    def say(line: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - begun), 60)
        print(f"{minutes:3}:{seconds:02} {line}", file=sys.stderr, flush=True)

    def keep() -> None:
        results["minutes"] = round(before + (time.monotonic() - begun) / 60, 1)
        written = figures.with_suffix(".part")
        written.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        written.replace(figures)

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    os.sched_setaffinity(0, {LOAD_CORE})
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spaps-evaluation-")))
        worlds = Worlds(folder, options.data, sizes.resolved_entities)
        results["city_name"] = worlds.city_name
        servers = Servers(folder, worlds, None, results["versions"])
        steps = [
            step
            for step in steps_of(servers, sizes)
            if step.experiment in (options.only or EXPERIMENTS) and options.step in step.key
        ]
        if options.list:
            for step in steps:
                print(f"{step.seconds:6.0f} s  {step.key}")
            print(f"{sum(step.seconds for step in steps) / 60:.1f} minutes")
            return
        servers.dsn = _start_postgres(stack, servers.versions, say)
        servers.versions.update(_versions(folder))
        gc.collect()
        gc.freeze()
        Plan(steps, results, keep, say, options.minutes).run()
        return
    say("interrupted: the page is written from what is there")


def steps_of(servers: Servers, sizes: Sizes) -> list[Step]:
    """Return all steps, those without which a page says the least first."""

    @cache
    def city() -> CityWorkload:
        return CityWorkload(load_snapshot(servers.worlds.city_folder), sizes.vehicles)

    return [
        *throughput_steps(servers, sizes, 1),
        *city_steps(servers, city, sizes),
        *scope_steps(servers, city, sizes),
        *filtering_steps(servers, sizes),
        *(step for turn in range(2, sizes.rounds + 1)
          for step in throughput_steps(servers, sizes, turn)),
    ]  # fmt: skip


def command_of(sizes: Sizes) -> str:
    """Return what to type to get figures of this size."""
    commands = {"full": "make evaluation", "quick": "make evaluation QUICK=1"}
    return commands.get(sizes.name, f"python -m bench.evaluation --size {sizes.name}")


def _start_postgres(stack: ExitStack, versions: dict[str, str], say: Say) -> str | None:
    """Start PostgreSQL on the core of the systems; return how to connect to it."""
    try:
        with on_core(SYSTEM_CORE):
            connection = stack.enter_context(postgis_server({SYSTEM_CORE}))
    except PostgisMissingError as error:
        say(str(error))
        return None
    version = connection.execute("SHOW server_version").fetchall()[0][0]
    versions["PostgreSQL"] = version.partition(" ")[0]
    versions["PostGIS"] = connection.execute("SELECT postgis_lib_version()").fetchall()[0][0]
    return dsn_of(connection)


def _versions(folder: Path) -> dict[str, str]:
    with EmbeddedRedis(folder / "version") as server:
        version = str(connect(server.url).info("server")["redis_version"])
    return {"Python": platform.python_version(), REDIS: version}


if __name__ == "__main__":
    sys.exit(main())
