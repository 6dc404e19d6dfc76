"""The push beside a plain redis-py pipeline, in one run: ``python -m bench.bulk.redis_push``.

Three ways of getting the same pairs into the same empty server: a plain pipeline of SADD by one
process (no verification), the push by one process, and the push on Spark from a Delta table
(both read back and compared). Rates are those of one round each, taken in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from redis import Redis

from redis_link.connection.client import connect
from redis_link.connection.embedded import EmbeddedRedis
from redis_link.generation.generation_push import PushReport, PushSource
from redis_link.generation.local_push import push_pairs
from redis_link.generation.sweep import Retention
from redis_link.sets.pair_arrays import Int64s, group_starts, sorted_distinct
from schemas.membership import PEID, STAGE_NO, SUB_ID, VERSION
from schemas.redis_keys import membership_key

OUT: Final = Path("out/redis_push.json")
COMMANDS_IN_PIPELINE: Final = 500
AT_ONCE: Final = Retention(grace_seconds=0)


@dataclass(slots=True)
class PushComparison:
    """Pairs a second of each way, by round, and what the sets cost."""

    pairs: int
    peids: int
    load_average: float
    plain: list[float] = field(default_factory=list)
    one_process: list[float] = field(default_factory=list)
    one_process_written: list[float] = field(default_factory=list)
    spark: list[float] = field(default_factory=list)
    spark_written: list[float] = field(default_factory=list)
    # Seconds of the steps of each push on Spark.
    spark_steps: list[dict[str, float]] = field(default_factory=list)
    bytes_per_pair: float | None = None

    def ratios(self) -> dict[str, float]:
        """The median of each way divided by that of the plain pipeline."""
        ways = ("one_process", "one_process_written", "spark", "spark_written")
        base = statistics.median(self.plain)
        return {
            way: statistics.median(getattr(self, way)) / base for way in ways if getattr(self, way)
        }

    def add(self, way: str, report: PushReport) -> None:
        """Keep the rates of one push: of all of it, and of the writing alone."""
        getattr(self, way).append(report.pairs_per_second)
        getattr(self, f"{way}_written").append(report.pairs / report.seconds["write"])
        self.bytes_per_pair = report.bytes_per_pair


def generated_pairs(count: int, peids: int, seed: int = 7) -> tuple[Int64s, Int64s]:
    """Distinct pairs in which few entities are in many subscriptions, in random order."""
    random = np.random.default_rng(seed)
    chosen = random.integers(0, 2**40, peids)
    which = (random.random(count) * random.random(count) * peids).astype(np.int64)
    pairs = sorted_distinct(chosen[which], random.integers(1, 100_000, count))
    order = random.permutation(len(pairs[0]))
    return pairs[0][order], pairs[1][order]


def plain_pipeline_rate(client: Redis, peids: Int64s, sub_ids: Int64s) -> float:
    """Pairs a second of one process with a redis-py pipeline; grouping is not in the time."""
    ordered, members = sorted_distinct(peids, sub_ids)
    starts = group_starts(ordered)
    ends = np.append(starts[1:], len(ordered))
    groups = [
        (membership_key(0, int(ordered[start])), members[start:end].tolist())
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    started = time.monotonic()
    pipeline = client.pipeline(transaction=False)
    for number, (key, group) in enumerate(groups, start=1):
        pipeline.sadd(key, *group)
        if number % COMMANDS_IN_PIPELINE == 0:
            pipeline.execute()
    pipeline.execute()
    return len(ordered) / (time.monotonic() - started)


def measure(count: int, peids: int, rounds: int, *, with_spark: bool) -> PushComparison:
    """All ways in turn, ``rounds`` times, on an embedded server that is emptied before each."""
    pairs = generated_pairs(count, peids)
    distinct = len(np.unique(pairs[0]))
    result = PushComparison(len(pairs[0]), distinct, os.getloadavg()[0])
    with tempfile.TemporaryDirectory(prefix="spaps-push-") as name:
        folder = Path(name)
        with EmbeddedRedis(folder / "redis") as server, _spark(with_spark) as spark:
            client = connect(server.url)
            assert isinstance(client, Redis)
            table = _delta_table(folder, pairs) if spark else ""
            if spark:  # the first push of a session pays for compiling; that is not the push
                _push_on_spark(spark, table, server.url)
            for _ in range(rounds):
                client.flushall()
                result.plain.append(plain_pipeline_rate(client, *pairs))
                client.flushall()
                source = PushSource(1, "bench")
                result.add("one_process", push_pairs(client, source, [pairs], retention=AT_ONCE))
                client.flushall()
                if spark:
                    report = _push_on_spark(spark, table, server.url)
                    result.add("spark", report)
                    result.spark_steps.append(report.seconds)
    return result


@contextmanager
def _spark(wanted: bool) -> Iterator[Any]:
    if not wanted:
        yield None
        return
    from jobs.pipeline.session import spark_session  # noqa: PLC0415 - only where a JVM is wanted

    session = spark_session("spaps-bench-push")
    yield session
    session.stop()


def _push_on_spark(spark: Any, table: str, url: str) -> PushReport:
    from jobs.pipeline.spark_push import push_generation  # noqa: PLC0415 - as above

    return push_generation(spark, table, 1, url, retention=AT_ONCE, say=lambda _: None)


def _delta_table(folder: Path, pairs: tuple[Int64s, Int64s]) -> str:
    peids, sub_ids = pairs
    ones = np.ones(len(peids), np.int64)
    rows = {SUB_ID: sub_ids, PEID: peids, STAGE_NO: ones.astype(np.int32), VERSION: ones}
    write_deltalake(folder / "memberships", pa.table(rows), partition_by=[VERSION])
    return str(folder / "memberships")


def main() -> int:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3_000_000)
    parser.add_argument("--peids", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-spark", action="store_true")
    options = parser.parse_args()
    result = measure(options.pairs, options.peids, options.rounds, with_spark=not options.no_spark)
    figures = asdict(result) | {"ratios": result.ratios()}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    print(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
