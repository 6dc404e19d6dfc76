"""The bulk job in an application that is already up: ``spark-submit bench/bulk/session.py``.

PostGIS is measured on a warm server, with its table loaded and indexed. This is the same for
Spark: a session that has resolved such batches before, as in a service that rebuilds by night.
A round is a first run on a world as an import leaves it, the same run again, and one with other
subscriptions; the first rounds only warm up.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from jobs.pipeline.bulk_run import resolve_batch
from jobs.pipeline.session import spark_session
from jobs.pipeline.subscriptions.snapshot import open_subscriptions
from schemas.entity import ENTITIES_TABLE, VERSIONS_TABLE

WARM_UPS = 2
ROUNDS = 3


def main() -> int:
    """Warm up, then one line for each run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", type=Path, required=True)
    parser.add_argument("--few", type=Path, required=True)
    parser.add_argument("--other", type=Path, required=True, help="as many, but others")
    parser.add_argument("--many", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    spark = spark_session("spaps-bench-bulk")

    def run(title: str, lines: Path) -> None:
        start = time.perf_counter()
        frames = open_subscriptions(spark, str(lines))
        facts = resolve_batch(
            spark, str(options.world), None, frames, str(lines), str(options.out), lambda _: None
        )
        seconds = time.perf_counter() - start
        print(json.dumps({"title": title, "seconds": seconds, "rows": facts.rows}), flush=True)

    for number in range(WARM_UPS + ROUNDS):
        is_measured = number >= WARM_UPS
        for title in ("first", "again", "other"):
            if title == "first":
                forget_related(options.world)
            run(
                title if is_measured else "warming up",
                options.other if title == "other" else options.few,
            )
    forget_related(options.world)
    run("large", options.many)
    spark.stop()
    return 0


def forget_related(world: Path) -> None:
    """Leave the world as an import leaves it, so that the next run is a first run."""
    for table in world.iterdir():
        if table.is_dir() and table.name not in (ENTITIES_TABLE, VERSIONS_TABLE):
            shutil.rmtree(table)


if __name__ == "__main__":
    raise SystemExit(main())
