"""spark-submit jobs/resolve_neighborhoods.py: all subscriptions on one world version.

Memberships go into the Delta table DIR/memberships, replaced for that version in one commit;
what the run did goes into DIR/runs and DIR/problems; with ``--redis`` the memberships go into
Redis as a new generation. With no argument: the sample world and its subscriptions.

Exit codes: 0 done, 2 nothing was changed, 3 written, but another push to Redis is running.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from pyspark.sql import SparkSession

from jobs.bulk_run import resolve_batch
from jobs.push_to_redis import push_generation
from jobs.registered_subscriptions import open_registered
from jobs.session import spark_session
from jobs.spark_errors import spark_errors_as
from jobs.subscription_lines import Subscriptions, open_subscriptions
from redis_link.background_sweep import BackgroundSweep
from redis_link.embedded import redis_or_embedded
from schemas.errors import PushBusyError, SpapsError, WorldError
from schemas.generation import FROM_FILE, RegistryCoverage
from schemas.membership import MEMBERSHIPS_TABLE
from schemas.settings import Settings, load_settings
from world.arrow_alone import keep_pandas_out
from world.importing import import_world
from world.store import WorldStore

REGISTERED: Final = "redis"
DEFAULT_OUT: Final = "lake"

EXIT_FAILED: Final = 2
EXIT_BUSY: Final = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Resolve, write, push when asked; the exit code."""
    options = _parser().parse_args(arguments)
    keep_pandas_out()
    try:
        with spark_errors_as(WorldError, "Spark failed"):
            _run(options, load_settings(options={"redis.url": options.redis or None}))
    except PushBusyError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BUSY
    except SpapsError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _run(options: argparse.Namespace, settings: Settings) -> None:
    world = options.world or settings.world.dir
    if options.world is None and not WorldStore(world).versions():
        _say(f"importing the sample world into {world}")
        import_world(list(settings.demo.sources), world)
    with ExitStack() as serving:
        url = None
        if options.redis is not None or options.subscriptions == REGISTERED:
            server = redis_or_embedded(settings.redis.url, settings.redis.data_dir)
            url = serving.enter_context(server)
        cleanup = _resolve_and_push(options, settings, world, url)
        # Spark has ended by now: the grace time is no reason to hold a cluster.
        if cleanup is not None:
            cleanup.wait()


def _resolve_and_push(
    options: argparse.Namespace, settings: Settings, world: str, url: str | None
) -> BackgroundSweep | None:
    """The work of Spark; what still removes the replaced generation, if there was a push."""
    with ExitStack() as ending:
        spark = spark_session("spaps-resolve-neighborhoods")
        ending.callback(spark.stop)
        if options.checkpoint is not None:
            spark.sparkContext.setCheckpointDir(options.checkpoint)
        source = options.subscriptions or str(settings.demo.subscriptions)
        subscriptions, coverage = _subscriptions(spark, source, url)
        facts = resolve_batch(
            spark, world, options.version, subscriptions, source, options.out, _say
        )
        for line in facts.lines():
            print(line, flush=True)
        if options.redis is None or url is None:
            return None
        table = f"{options.out.rstrip('/')}/{MEMBERSHIPS_TABLE}"
        report = push_generation(spark, table, facts.version, url, coverage=coverage, say=_say)
        print(report.summary(), flush=True)
        return report.cleanup


def _subscriptions(
    spark: SparkSession, source: str, url: str | None
) -> tuple[Subscriptions, RegistryCoverage]:
    if source == REGISTERED and url is not None:
        return open_registered(spark, url)
    return open_subscriptions(spark, source), FROM_FILE


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="resolve_neighborhoods.py",
        description="Resolve all subscriptions on one world version into Delta, and into Redis.",
    )
    parser.add_argument("--world", metavar="DIR", help="Delta tables of the world (conf/)")
    parser.add_argument("--version", type=int, metavar="N", help="default: the newest")
    parser.add_argument(
        "--subscriptions",
        metavar="FILE",
        help=f"JSON lines, a Delta table, or '{REGISTERED}' for those registered in Redis "
        "(default: the sample)",
    )
    parser.add_argument(
        "--out", metavar="DIR", default=DEFAULT_OUT, help="folder of the result (%(default)s)"
    )
    parser.add_argument(
        "--redis",
        nargs="?",
        const="",
        metavar="URL",
        help="push the result to Redis; without a URL: the one of conf/, else the embedded server",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="keep levels in this folder, so that a lost executor does not end the run",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
