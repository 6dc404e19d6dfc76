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

from jobs.pipeline.memberships.change_feed import write_changes
from jobs.pipeline.memberships.memberships_table import CommitChoice
from jobs.pipeline.session import spark_session
from jobs.pipeline.spark_push import push_generation
from jobs.pipeline.table_places import OUTPUT, folder_place, table_place
from redis_link.connection.redis_choice import redis_or_embedded
from redis_link.generation.generation_push import PushReport
from redis_link.generation.generation_store import GRACE_SECONDS
from redis_link.generation.quality_gate import QualityGate, gate_of
from redis_link.generation.sweep import Retention
from schemas.errors import EXIT_DONE, exit_code_of
from schemas.job_parser import JobParser, seconds, whole_number
from schemas.settings import load_settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Push, print one line, wait until the replaced generation is removed; the exit code."""
    options = _parser().parse_args(arguments)
    return exit_code_of(lambda: _pushed(options))


def _parser() -> JobParser:
    about = "Push the memberships of one world version into Redis, as a new generation."
    parser = JobParser(prog="push_to_redis.py", description=about)
    add = parser.add_argument
    table = "Delta table of memberships, by path or catalog name, or the folder that holds it"
    add("--memberships", required=True, metavar="DIR", help=table)
    add("--version", type=whole_number, help="world version (default: the newest)")
    run = "the run that wrote them, by the table runs (default: the last complete one)"
    add("--run", metavar="ID", help=run)
    add("--commit", type=whole_number, metavar="N", help="the Delta commit to read instead")
    add("--redis", metavar="URL", help="default: conf/, else the embedded server")
    grace = "how long readers may stay on the old one (%(default)g)"
    add("--grace", type=seconds, default=GRACE_SECONDS, metavar="SECONDS", help=grace)
    keep = "how many replaced generations stay (%(default)s)"
    add("--keep", type=whole_number, default=0, metavar="N", help=keep)
    switch = "switch even if more is gone than the settings allow"
    add("--switch-anyway", action="store_true", help=switch)
    changes = "add what the run changed to the table membershipChanges"
    add("--changes", action="store_true", help=changes)
    return parser


def _pushed(options: argparse.Namespace) -> int:
    settings = load_settings(options={"redis.url": options.redis})
    gate = gate_of(settings.quality, switch_anyway=options.switch_anyway)
    with redis_or_embedded(settings) as url:
        report = _push(options, url, gate)
        print(report.summary(), flush=True)
        for line in report.advice:
            _say(f"note: {line}")
        if report.cleanup is not None:
            if report.cleanup.running and report.replaced is not None:
                _say(f"generation {report.replaced} is removed in {options.grace:g} s")
            if removed := report.cleanup.wait():
                _say(f"removed generation {', '.join(map(str, removed))}")
    return EXIT_DONE


def _push(options: argparse.Namespace, url: str, gate: QualityGate) -> PushReport:
    spark = spark_session("spaps-push-to-redis")
    wanted = CommitChoice(options.version, options.run, options.commit)
    retention = Retention(options.grace, options.keep)
    try:
        place = table_place(spark, folder_place(spark, options.memberships, OUTPUT))
        if options.changes:
            write_changes(spark, place, wanted, _say)
        return push_generation(spark, place, wanted, url, retention=retention, say=_say, gate=gate)
    finally:
        spark.stop()  # a cluster must not wait for the grace time


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
