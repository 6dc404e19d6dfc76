"""spark-submit jobs/push_to_redis.py --memberships DIR: memberships from Delta into Redis.

The executors write sets ``peid → {subId}`` as a new generation and read them back. Redis switches
to it in one step when counts and checksum are those of the Delta table, and when it does not take
away more than the settings allow.

Exit codes: 0 done, 2 something is wrong and the old generation stays in force, 3 another push runs,
5 the generation would take away too much and the old one stays in force.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from jobs.pipeline.generation.spark_push import push_generation
from jobs.pipeline.memberships.change_feed import write_changes
from jobs.pipeline.memberships.memberships_table import CommitChoice
from jobs.pipeline.session import spark_session
from jobs.push_arguments import push_parser
from redis_link.connection.redis_choice import redis_or_embedded
from redis_link.generation.generation_push import PushReport
from redis_link.generation.quality_gate import QualityGate, gate_of
from redis_link.generation.sweep import Retention
from schemas.errors import EXIT_DONE, exit_code_of
from schemas.settings import load_settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Push, print one line, wait until the replaced generation is removed; the exit code."""
    options = push_parser().parse_args(arguments)
    return exit_code_of(lambda: _pushed(options))


def _pushed(options: argparse.Namespace) -> int:
    settings = load_settings(options={"redis.url": options.redis})
    gate = gate_of(settings.quality, switch_anyway=options.switch_anyway)
    with redis_or_embedded(settings) as url:
        report = _push(options, url, gate)
        print(report.summary(), flush=True)
        for line in report.advice:
            print(f"note: {line}", file=sys.stderr)
        _clean_up(report, options.grace)
    return EXIT_DONE


def _push(options: argparse.Namespace, url: str, gate: QualityGate) -> PushReport:
    spark = spark_session("spaps-push-to-redis")
    wanted = CommitChoice(options.version, options.run, options.commit)
    retention = Retention(options.grace, options.keep)
    try:
        if options.changes:
            write_changes(spark, options.memberships, wanted, _say)
        return push_generation(
            spark, options.memberships, wanted, url, retention=retention, say=_say, gate=gate
        )
    finally:
        spark.stop()  # a cluster must not wait for the grace time


def _clean_up(report: PushReport, grace_seconds: float) -> None:
    if report.cleanup is None:
        return
    if report.cleanup.running and report.replaced is not None:
        _say(f"generation {report.replaced} is removed in {grace_seconds:g} s")
    removed = report.cleanup.wait()
    if removed:
        _say(f"removed generation {', '.join(map(str, removed))}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
