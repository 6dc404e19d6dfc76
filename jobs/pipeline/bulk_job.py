"""The work behind jobs/resolve_neighborhoods.py: resolve, write, and push when asked."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from jobs.pipeline.bulk_run import resolve_batch
from jobs.pipeline.memberships.change_feed import write_changes
from jobs.pipeline.memberships.memberships_table import CommitChoice
from jobs.pipeline.memberships.run_facts import RunFacts
from jobs.pipeline.session import PROJECT_ROOT, BegunSession
from jobs.pipeline.spark_messages import spark_errors_as
from jobs.pipeline.spark_push import push_generation
from jobs.pipeline.subscriptions.snapshot import Subscriptions, open_registered, open_subscriptions
from jobs.pipeline.table_places import OUTPUT, WORLD, folder_place, lake_table, table_place
from jobs.pipeline.world_tables import world_id
from redis_link.connection.client import connect
from redis_link.connection.redis_choice import redis_or_embedded
from redis_link.generation.quality_gate import QualityGate, gate_of, generation_in_force
from redis_link.generation.sweep import BackgroundSweep
from schemas.errors import EXIT_DONE, WorldError
from schemas.generation import FROM_FILE, RegistryCoverage
from schemas.membership import MEMBERSHIPS_TABLE
from schemas.settings import Settings, load_settings
from world.imports.world_import import import_world
from world.locks import output_lock
from world.versions.store import WorldStore

REGISTERED: Final = "redis"


@spark_errors_as(WorldError, "Spark failed")
def run(options: argparse.Namespace, session: BegunSession) -> int:
    """Do what the command line says; the exit code."""
    given = {"redis.url": options.redis or None, "world.dir": options.world}
    settings = load_settings(options=given)
    world = settings.world.dir
    if options.world is None and not WorldStore(world).versions():
        _say(f"importing the sample world into {world}")
        import_world([_of_project(source) for source in settings.demo.sources], world)
    with ExitStack() as serving:
        url = None
        if options.redis is not None or options.subscriptions == REGISTERED:
            server = redis_or_embedded(settings)
            url = serving.enter_context(server)
        cleanup = _resolve_and_push(options, settings, world, url, session.get())
        # The grace time is no reason to hold a cluster.
        session.close()
        if cleanup is not None:
            cleanup.wait()
    return EXIT_DONE


def _resolve_and_push(
    options: argparse.Namespace,
    settings: Settings,
    world: str,
    url: str | None,
    spark: SparkSession,
) -> BackgroundSweep | None:
    """Do the work of Spark; return the sweep of the replaced generation, if there was a push."""
    source = options.subscriptions or str(_of_project(settings.demo.subscriptions))
    subscriptions, coverage = _subscriptions(spark, table_place(spark, source), url)
    world, out = folder_place(spark, world, WORLD), folder_place(spark, options.out, OUTPUT)
    # Pushes of one folder come in the order of its commits, so the lock is held until the switch.
    with ExitStack() as held:
        lock = output_lock(lake_table(spark, out).uri, "a bulk run")
        facts = resolve_batch(
            spark, world, options.version, subscriptions, source, out, _say,
            may_resolve_nothing=False, before_writing=lambda: held.enter_context(lock),
        )  # fmt: skip
        for line in facts.lines():
            print(line, flush=True)
        if options.changes:
            write_changes(spark, out, CommitChoice(facts.version, facts.run_id), _say)
        if options.redis is None or url is None:
            return None
        gate = gate_of(settings.quality, switch_anyway=options.switch_anyway)
        return _push(spark, out, facts, url, coverage, world_id(spark, world), gate)


def _push(
    spark: SparkSession,
    out: str,
    facts: RunFacts,
    url: str,
    coverage: RegistryCoverage,
    world: str,
    gate: QualityGate,
) -> BackgroundSweep | None:
    """Push what this run wrote, whatever else the folder holds by now."""
    table = f"{out.rstrip('/')}/{MEMBERSHIPS_TABLE}"
    wanted = CommitChoice(facts.version, facts.run_id)
    _check_world(facts, url, world_id(spark, facts.world), gate)
    report = push_generation(
        spark, table, wanted, url, coverage=coverage, world=world, say=_say, gate=gate
    )
    print(report.summary(), flush=True)
    return report.cleanup


def _check_world(facts: RunFacts, url: str, world: str, gate: QualityGate) -> None:
    """Refuse a version with far fewer entities than the one in force, if that is known."""
    with closing(connect(url)) as client:
        in_force = generation_in_force(client)
    if in_force is None or in_force.world != world:
        return
    entities = {each.version: each.entity_count for each in WorldStore(facts.world).versions()}
    if in_force.version in entities and facts.version in entities:
        before, now = entities[in_force.version], entities[facts.version]
        gate.check_world(before, max(before - now, 0), _say)


def _subscriptions(
    spark: SparkSession, source: str, url: str | None
) -> tuple[Subscriptions, RegistryCoverage]:
    if source == REGISTERED and url is not None:
        return open_registered(url)
    return open_subscriptions(spark, source), FROM_FILE


def _of_project(path: Path) -> Path:
    """Return a path of the sample, which lies with the project and not in the current folder."""
    return path if path.exists() else PROJECT_ROOT / path


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
