"""One run of the bulk job: read, resolve, write."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from jobs.compiled_batch import compile_batch, read_batch
from jobs.known_sets import KeepingSets, open_known_sets
from jobs.level_loop import LevelLoop
from jobs.membership_rows import write_memberships
from jobs.problem_rows import problem_rows
from jobs.related_tables import ensure_related
from jobs.run_facts import RunFacts, no_problems, write_problems, write_run
from jobs.subscription_lines import SubscriptionFrames
from jobs.world_tables import open_world
from redis_link.push_report import StepClock
from schemas.membership import MEMBERSHIPS_TABLE


def resolve_batch(
    spark: SparkSession,
    world_path: str,
    version: int | None,
    subscriptions: SubscriptionFrames,
    source: str,
    out: str,
    say: Callable[[str], None],
) -> RunFacts:
    """Resolve all subscriptions on a world version into the tables under ``out``."""
    started_at = datetime.now(UTC)
    clock = StepClock()
    with ExitStack() as cleaning:
        cleaning.callback(subscriptions.release)
        # Taking subscriptions apart and looking at the world do not need each other.
        beside = cleaning.enter_context(ThreadPoolExecutor(1, "subscriptions"))
        reading = beside.submit(read_batch, subscriptions.good)
        world = open_world(spark, world_path, version)
        say(f"world {world.path}, version {world.version}: {world.entity_count:,} entities")
        related = ensure_related(spark, world, say)
        cleaning.callback(related.release)
        say(f"related pairs: {related.pair_count:,}, {related.origin}")
        clock.lap("related")
        read = reading.result()
        cleaning.callback(read.descriptors.unpersist)
        known = open_known_sets(spark, world, read.graph.nodes)
        batch = compile_batch(read, related, known.nodes)
        reused = f", {len(known.nodes):,} known from earlier runs" if len(known.nodes) else ""
        say(
            f"subscriptions: {batch.facts.subscriptions:,} read, "
            f"{batch.facts.descriptors:,} different descriptors, "
            f"{len(batch.unknown):,} different sets to resolve{reused}"
        )
        clock.lap("read")
        loop = LevelLoop(spark, world, related, batch, known)
        cleaning.callback(loop.release)
        loop.run(say)
        keeping = KeepingSets(spark, world, batch.unknown, loop.resolved())
        cleaning.callback(keeping.release)
        clock.lap("resolve")
        folder = out.rstrip("/")
        table = f"{folder}/{MEMBERSHIPS_TABLE}"
        rows = write_memberships(spark, table, batch, loop, world.version)
        say(f"memberships: {rows:,} rows in {table}")
        clock.lap("write")
        if subscriptions.bad_count or batch.facts.remarks or loop.missing_references():
            found = problem_rows(subscriptions.bad, batch, loop.members[0], world.version)
            problems = write_problems(folder, world.version, found)
        else:
            problems = no_problems(spark, folder, world.version)
        related.finish()
        keeping.finish(say)
        clock.lap("report")
    facts = RunFacts(
        version=world.version,
        started_at=started_at,
        world=world.path,
        source=source,
        subscriptions=batch.facts.subscriptions + problems.counts.get("unreadable", 0),
        descriptors=batch.facts.descriptors,
        rows=rows,
        related=related.origin,
        levels=tuple(loop.reports),
        seconds=clock.seconds,
        problems=problems,
    )
    write_run(spark, folder, facts)
    return facts
