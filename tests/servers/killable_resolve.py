"""Bulk runs in a process tree of its own (Python, JVM, workers), made to be killed.

``python -m tests.servers.killable_resolve FOLDER REDIS_URL LANES TURN``: every lane runs the job
over and over, each with a lake and a database of its own, so that one kill meets many runs.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from jobs import resolve_neighborhoods
from jobs.push_to_redis import push_generation
from jobs.session import spark_session
from redis_link.sweep import Retention

READY: Final = "ready"
# World version and subscriptions of each run, over and over.
RUNS: Final = ((1, "a"), (1, "b"), (2, "a"), (2, "b"))
# With a handful of rows, generating code for each plan is most of the work.
INTERPRETED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
quick_push: Final = partial(push_generation, retention=Retention(grace_seconds=0.2))


def lane_folder(folder: Path, lane: int) -> Path:
    """Where the world and the result of a lane lie."""
    return folder / f"lane{lane}"


def lane_url(redis_url: str, lane: int) -> str:
    """The database of a lane."""
    return f"{redis_url}/{lane}"


def run_once(folder: Path, redis_url: str, lane: int, version: int, batch: str) -> int:
    """The job as its command line runs it, but for the time that replaced generations stay."""
    own = lane_folder(folder, lane)
    arguments = [
        *("--world", own / "world", "--version", version, "--out", own / "out"),
        *("--subscriptions", folder / f"{batch}.jsonl", "--redis", lane_url(redis_url, lane)),
    ]
    return resolve_neighborhoods.main([str(each) for each in arguments])


def share_session() -> Any:
    """The session that all runs of this process use; none of them stops it."""
    spark = spark_session("spaps-killed-resolve", shuffle_partitions=2, extra=INTERPRETED)
    SparkSession.stop = lambda _: None  # type: ignore[method-assign]
    resolve_neighborhoods.push_generation = quick_push  # type: ignore[attr-defined]
    return spark


def _run_lane(folder: Path, redis_url: str, lane: int, turn: int) -> None:
    try:
        while run_once(folder, redis_url, lane, *RUNS[turn % len(RUNS)]) == 0:
            turn += 1
    except BaseException:  # noqa: BLE001 - whatever it is, the test must see it
        traceback.print_exc()
    os._exit(1)


def main() -> None:
    """Start the session, say so, and run until somebody ends it."""
    folder, redis_url, lanes, turn = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:5])
    share_session()
    sys.stderr.write(f"{READY}\n")
    threads = [
        threading.Thread(target=_run_lane, args=(folder, redis_url, lane, turn + lane))
        for lane in range(lanes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:  # when the main thread ends, Python lets nobody start another
        thread.join()


if __name__ == "__main__":
    main()
