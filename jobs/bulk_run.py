"""One run of the bulk job: read, resolve, write."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.batch_reading import read_batch
from jobs.compiled_batch import compile_batch
from jobs.exact_memberships import SCHEMA
from jobs.known_sets import NewSets, open_known_sets
from jobs.lake_tables import NewFile, lake_table
from jobs.level_loop import LevelLoop
from jobs.membership_rows import write_results
from jobs.related_tables import ensure_related
from jobs.run_facts import RunFacts, write_problems, write_run
from jobs.subscription_lines import Subscriptions
from jobs.world_tables import open_world
from redis_link.push_report import StepClock
from schemas.errors import SpapsError
from schemas.membership import MEMBERSHIPS_TABLE, VERSION


def resolve_batch(
    spark: SparkSession,
    world_path: str,
    version: int | None,
    subscriptions: Subscriptions,
    source: str,
    out: str,
    say: Callable[[str], None],
) -> RunFacts:
    """Resolve all subscriptions on a world version into the tables under ``out``."""
    started_at = datetime.now(UTC)
    clock = StepClock()
    with ExitStack() as cleaning:
        # Taking subscriptions apart and looking at the world do not need each other.
        beside = cleaning.enter_context(ThreadPoolExecutor(1, "subscriptions"))
        reading = beside.submit(read_batch, spark, subscriptions)
        world = open_world(spark, world_path, version)
        say(f"world {world.path}, version {world.version}: {world.entity_count:,} entities")
        related = ensure_related(spark, world, say)
        say(f"related pairs: {related.pair_count:,}, {related.origin}")
        clock.lap("related")
        read = reading.result()
        known = open_known_sets(world, read.graph.nodes)
        batch = compile_batch(read.graph, related, known.nodes)
        reused = f", {len(known.nodes):,} known from earlier runs" if len(known.nodes) else ""
        say(
            f"subscriptions: {read.facts.subscriptions:,} read, "
            f"{read.facts.descriptors:,} different descriptors, "
            f"{len(batch.unknown):,} different sets to resolve{reused}"
        )
        clock.lap("read")
        loop = LevelLoop(spark, world, related, batch, known)
        cleaning.callback(loop.release)
        loop.run(say)
        clock.lap("resolve")
        folder = out.rstrip("/")
        table = lake_table(spark, f"{folder}/{MEMBERSHIPS_TABLE}")
        sets = NewSets(world)
        results = write_results(read, loop, table, world.version, sets)
        table.replace_version(world.version, results.memberships, SCHEMA, [VERSION])
        say(f"memberships: {results.rows:,} rows in {folder}/{MEMBERSHIPS_TABLE}")
        clock.lap("write")
        _keep_sets(sets, results.sets, batch.unknown, results.trouble, say)
        problems = write_problems(spark, folder, world.version, read, loop.existing)
        clock.lap("report")
    facts = RunFacts(
        version=world.version,
        started_at=started_at,
        world=world.path,
        source=source,
        subscriptions=read.facts.subscriptions + problems.counts.get("unreadable", 0),
        descriptors=read.facts.descriptors,
        rows=results.rows,
        related=related.origin,
        levels=tuple(loop.reports),
        seconds=clock.seconds,
        problems=problems,
    )
    write_run(spark, folder, facts)
    return facts


def _keep_sets(
    sets: NewSets,
    files: list[NewFile],
    nodes: pa.Table,
    trouble: str | None,
    say: Callable[[str], None],
) -> None:
    """Keep what was resolved for later runs; this one is complete without it."""
    if trouble is None and len(nodes):
        try:
            sets.keep(files, nodes)
        except SpapsError as error:
            trouble = str(error)
    if trouble is not None:
        say(f"the resolved sets could not be kept for later runs: {trouble}")
