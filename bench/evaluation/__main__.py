"""The evaluation of the original design, repeated here: ``make evaluation``.

Core 0 is the system's, with its store; core 1 the load generator's. Writes docs/evaluation.md, and
its figures as JSON and as plots. ``--size quick`` takes five minutes, ``--size full`` forty-five.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from bench.broker.connection import LoadError
from bench.broker.peers import WORLD_ENTITIES, PeerMissingError
from bench.evaluation.berlin import CityWorkload, measure_city, source_of
from bench.evaluation.compared.servers import LOAD_CORE, SYSTEM_CORE, Servers
from bench.evaluation.compared.systems import REDIS
from bench.evaluation.filtering import measure_filtering
from bench.evaluation.report.page import write_page
from bench.evaluation.report.plots import plot_all
from bench.evaluation.scope import measure_scope
from bench.evaluation.sizes import SIZES, Sizes
from bench.evaluation.throughput import Row, measure_throughput
from redis_link.connection.client import connect
from redis_link.connection.embedded import EmbeddedRedis
from testing.postgis_server import PostgisMissingError, postgis_server
from testing.processor import cpu_name
from world.imports.world_import import import_world
from world.snapshot import load_snapshot

REPOSITORY: Final = Path(__file__).resolve().parents[2]
DATA: Final = REPOSITORY.parent / "shared" / "data"
DOCS: Final = Path("docs")
FIGURES: Final = "evaluation.json"
EXPERIMENTS: Final = ("throughput", "filtering", "city", "scope")
PRIORITY: Final = -10


def main() -> int:
    """Measure and write; 2 when something is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--only", choices=EXPERIMENTS, help="one experiment; the page needs all")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with berlin/world.parquet")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder of the page")
    parser.add_argument(
        "--from-figures", action="store_true", help="write plots and page again, measure nothing"
    )
    options = parser.parse_args()
    figures = options.out / "figures" / FIGURES
    if options.from_figures:
        results = json.loads(figures.read_text("utf-8"))
    else:
        if len(os.sched_getaffinity(0)) < 2:
            print("two cores are needed: one for a system, one for its load", file=sys.stderr)
            return 2
        try:
            figures.parent.mkdir(parents=True, exist_ok=True)
            results = measure(SIZES[options.size], options.data, options.only, figures)
        except (PeerMissingError, PostgisMissingError, LoadError) as error:
            print(error, file=sys.stderr)
            return 2
    plot_all(results, figures.parent)
    if all(name in results for name in EXPERIMENTS):
        page = write_page(results, options.out)
        print(f"written: {page}")
    return 0


def measure(sizes: Sizes, data: Path, only: str | None, figures: Path) -> Row:
    """Run the experiments; write the figures after each, so that a failure loses one only."""
    begun, load_average = time.monotonic(), os.getloadavg()[0]

    def say(line: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - begun), 60)
        print(f"{minutes:3}:{seconds:02} {line}", file=sys.stderr, flush=True)

    os.sched_setaffinity(0, {LOAD_CORE})
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    results: Row = {
        "size": sizes.name, "command": command_of(sizes), "load_average": round(load_average, 2),
        "machine": {"cpu": cpu_name(), "cores": os.cpu_count()},
    }  # fmt: skip

    def keep(**found: Any) -> None:
        results.update(found, minutes=round((time.monotonic() - begun) / 60, 1))
        figures.write_text(json.dumps(results, indent=1) + "\n", "utf-8")

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spaps-evaluation-")))
        postgres = stack.enter_context(postgis_server({SYSTEM_CORE}))
        small = str(folder / "small")
        drawing = [sys.executable, "-m", "bench.live.world", small, str(WORLD_ENTITIES)]
        subprocess.run(drawing, check=True)
        servers = Servers(folder, small, postgres, _versions(folder))
        version = postgres.execute("SHOW server_version").fetchall()[0][0]
        servers.versions["PostgreSQL"] = version.partition(" ")[0]
        gc.collect()
        gc.freeze()
        if only in (None, "throughput"):
            keep(throughput=measure_throughput(servers, sizes, say))
        if only in (None, "filtering"):
            filtering, adding = measure_filtering(servers, sizes, say)
            keep(filtering=filtering, adding=adding)
        if only in (None, "city", "scope"):
            source, name = source_of(data)
            world = str(folder / "city")
            import_world([source], world)
            servers.world = world
            keep(city_name=name)
            city = CityWorkload(load_snapshot(world), sizes.vehicles)
            if only in (None, "city"):
                keep(city=measure_city(servers, city, sizes, say))
            if only in (None, "scope"):
                keep(scope=measure_scope(servers, city, sizes, say))
        keep(versions=servers.versions)
    return results


def command_of(sizes: Sizes) -> str:
    """Return what to type to get figures of this size."""
    commands = {"full": "make evaluation", "quick": "make evaluation QUICK=1"}
    return commands.get(sizes.name, f"python -m bench.evaluation --size {sizes.name}")


def _versions(folder: Path) -> dict[str, str]:
    with EmbeddedRedis(folder / "redis-version") as server:
        version = str(connect(server.url).info("server")["redis_version"])
    return {"Python": platform.python_version(), REDIS: version}


if __name__ == "__main__":
    sys.exit(main())
