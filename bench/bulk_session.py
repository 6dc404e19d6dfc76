"""The bulk job in an application that is already up: ``spark-submit bench/bulk_session.py``.

PostGIS is measured on a warm server, with its table loaded and indexed. This is the same for
Spark: a session that has resolved a small batch before, as in a service that rebuilds by night.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from jobs.bulk_run import resolve_batch
from jobs.session import spark_session
from jobs.subscription_lines import open_subscriptions
from schemas.entity import ENTITIES_TABLE, VERSIONS_TABLE

# The JVM compiles what it has seen often: a session that is up has run such batches before.
WARM_UPS = 5


def main() -> int:
    """Warm up, then one run for each line to come: title, subscription file, related or not."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", type=Path, required=True)
    parser.add_argument("--small-world", type=Path, required=True)
    parser.add_argument("--small", type=Path, required=True, help="subscriptions to warm up with")
    parser.add_argument("--few", type=Path, required=True)
    parser.add_argument("--many", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    spark = spark_session("spaps-bench-bulk")

    def run(title: str, world: Path, lines: Path) -> None:
        start = time.perf_counter()
        frames = open_subscriptions(spark, str(lines))
        facts = resolve_batch(
            spark, str(world), None, frames, str(lines), str(options.out), lambda _: None
        )
        seconds = time.perf_counter() - start
        print(json.dumps({"title": title, "seconds": seconds, "rows": facts.rows}), flush=True)

    for _ in range(WARM_UPS):
        forget_related(options.small_world)
        run("warming up", options.small_world, options.small)
    forget_related(options.world)
    run("first", options.world, options.few)
    run("again", options.world, options.few)
    forget_related(options.world)
    run("large", options.world, options.many)
    spark.stop()
    return 0


def forget_related(world: Path) -> None:
    """Leave the world as an import leaves it, so that the next run is a first run."""
    for table in world.iterdir():
        if table.is_dir() and table.name not in (ENTITIES_TABLE, VERSIONS_TABLE):
            shutil.rmtree(table)


if __name__ == "__main__":
    raise SystemExit(main())
