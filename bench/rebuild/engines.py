"""Rebuilds in one process and on Spark, by the size of the world: python -m bench.rebuild.engines.

Behind the choice in ``rebuild/bulk_engine.py``. For each size and engine: a first rebuild, and one
after a change of one per cent of the entities. Spark runs in executors of their own, so that
the memory of the driver, JVM and Python, can be told from theirs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bench.process_tree import tree_megabytes, tree_of
from bench.rebuild.registration import register
from redis_link.connection.client import connect
from redis_link.connection.embedded import EmbeddedRedis
from testing.city_edits import edited_city
from testing.synthetic_city import synthetic_city
from testing.world_writers import write_geoparquet

OUT: Final = Path("out")
PROGRAMS: Final = Path(sys.executable).parent
SAMPLE_SECONDS: Final = 1.0
# Part of the command line of an executor of local-cluster.
EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
TITLES: Final = ("first", "1% changed")


@dataclass(frozen=True)
class EngineRun:
    """One rebuild: the memory is that of the driver alone, and that of all processes."""

    entities: int
    engine: str
    title: str
    seconds: float
    driver_megabytes: float
    megabytes: float

    def line(self) -> str:
        """Return a row of a table."""
        return (
            f"| {self.entities:,} | {self.engine} | {self.title} | {self.seconds:.1f} | "
            f"{self.driver_megabytes:,.0f} | {self.megabytes:,.0f} |"
        )


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--entities", type=int, nargs="+", default=[225_150, 1_000_000])
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--engines", nargs="+", default=["exact", "spark"])
    parser.add_argument("--master", default="local-cluster[2,1,3072]")
    parser.add_argument("--driver-memory", default="1g", help="heap of the driver")
    parser.add_argument("--executor-memory", default="2g")
    options = parser.parse_args()
    runs: list[EngineRun] = []
    for entities in options.entities:
        table = synthetic_city(entities)
        with tempfile.TemporaryDirectory(prefix="spaps-engines-") as name:
            folder = Path(name)
            sources = [folder / "first.parquet", folder / "second.parquet"]
            write_geoparquet(table, sources[0])
            write_geoparquet(edited_city(table, 0.01, seed=1), sources[1])
            for engine in options.engines:
                with EmbeddedRedis(folder / f"redis-{engine}") as server:
                    client = connect(server.url)
                    register(client, table, options.subscriptions)
                    for title, source in zip(TITLES, sources, strict=True):
                        command = _command(options, engine, source, folder / engine, server.url)
                        run = _measured(command, folder, entities, engine, title)
                        print(run.line(), file=sys.stderr, flush=True)
                        runs.append(run)
                    client.close()
        del table
    print("| entities | engine | rebuild | seconds | MB of the driver | MB of all |")
    print("|--:|---|---|--:|--:|--:|")
    print("\n".join(run.line() for run in runs))
    OUT.mkdir(exist_ok=True)
    (OUT / "engines.json").write_text(json.dumps([asdict(run) for run in runs], indent=1))
    return 0


def _command(
    options: argparse.Namespace, engine: str, source: Path, out: Path, url: str
) -> list[str]:
    job = ["jobs/rebuild.py", str(source), "--world", str(out / "world"), "--out", str(out)]
    job += ["--redis", url, "--engine", engine]
    if engine == "exact":
        return [sys.executable, *job]
    settings = ["--master", options.master, "--driver-memory", options.driver_memory]
    return [
        str(PROGRAMS / "spark-submit"), *settings,
        "--executor-memory", options.executor_memory, *job,
    ]  # fmt: skip


def _measured(
    command: Sequence[str], folder: Path, entities: int, engine: str, title: str
) -> EngineRun:
    environment = os.environ | {
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
        "SPAPS_REBUILD_RECORDS": str(folder / engine / "rebuilds"),
        "SPAPS_REBUILD_GRACE_SECONDS": "0",
    }
    log = folder / "log"
    peaks = [0.0, 0.0]
    done = threading.Event()
    started = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)

        def watch() -> None:
            while not done.wait(SAMPLE_SECONDS):
                every = tree_megabytes(process.pid)
                executors = sum(tree_megabytes(pid) for pid in _executors(process.pid))
                peaks[:] = max(peaks[0], every - executors), max(peaks[1], every)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        status = process.wait()
    seconds = time.perf_counter() - started
    done.set()
    watcher.join()
    if status:
        raise SystemExit("\n".join(log.read_text("utf-8").splitlines()[-15:]))
    return EngineRun(entities, engine, title, seconds, *peaks)


def _executors(root: int) -> list[int]:
    found = []
    for pid in tree_of(root):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if EXECUTOR in line:
            found.append(pid)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
