"""One run of the bulk job: read, resolve, write."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.pipeline.lake_tables import NewFile, lake_table
from jobs.pipeline.memberships.membership_rows import write_results
from jobs.pipeline.pairs.related_tables import ensure_related
from jobs.pipeline.run_facts import (
    RunFacts,
    find_problems,
    refuse_nothing,
    subscription_count,
    write_run,
)
from jobs.pipeline.stages.level_loop import LevelLoop
from jobs.pipeline.stages.resolved_set_cache import NewSets, open_known_sets
from jobs.pipeline.subscriptions.batch_reader import read_batch
from jobs.pipeline.subscriptions.compiled_batch import compile_batch
from jobs.pipeline.subscriptions.subscription_lines import Subscriptions
from jobs.pipeline.world_tables import open_world
from redis_link.generation.generation_push import StepClock
from schemas.errors import SpapsError
from schemas.membership import MEMBERSHIPS_TABLE, VERSION
from world.memberships.membership_table import SCHEMA
from world.memberships.run_commits import new_run_id


def resolve_batch(  # noqa: PLR0913  where everything lies
    spark: SparkSession,
    world_path: str,
    version: int | None,
    subscriptions: Subscriptions,
    source: str,
    out: str,
    say: Callable[[str], None],
    *,
    run: str = "",
    may_resolve_nothing: bool = True,
    before_writing: Callable[[], object] = lambda: None,
) -> RunFacts:
    """Resolve all subscriptions on a world version into the tables under ``out``.

    ``run`` is the id of a run that this one is a part of. Where nothing can be resolved and that
    may not be, a NothingResolvedError says why, and the memberships stay as they are.
    ``before_writing`` is called when the input is there, before anything is computed.
    """
    started_at = datetime.now(UTC)
    run_id = run or new_run_id()
    clock = StepClock()
    with ExitStack() as cleaning:
        # Taking subscriptions apart and looking at the world do not need each other.
        beside = cleaning.enter_context(ThreadPoolExecutor(1, "subscriptions"))
        reading = beside.submit(read_batch, spark, subscriptions)
        world = open_world(spark, world_path, version)
        say(f"world {world.path}, version {world.version}: {world.entity_count:,} entities")
        before_writing()
        folder = out.rstrip("/")
        table = lake_table(spark, f"{folder}/{MEMBERSHIPS_TABLE}")
        before = table.paths(world.version)
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
        problems = find_problems(spark, folder, world.version, read, loop.existing)
        if not may_resolve_nothing:
            refuse_nothing(read, problems, folder)
        clock.lap("report")
        sets = NewSets(world)
        results = write_results(read, loop, table, world.version, sets)
        commit = table.replace_version(
            world.version, results.memberships, SCHEMA, [VERSION], run=run_id, before=before
        )
        say(f"memberships: {results.rows:,} rows in {folder}/{MEMBERSHIPS_TABLE}")
        clock.lap("write")
        _keep_sets(sets, results.sets, batch.unknown, results.trouble, say)
        reported = problems.commit()
    facts = RunFacts(
        version=world.version,
        started_at=started_at,
        world=world.path,
        source=source,
        subscriptions=subscription_count(read, problems),
        descriptors=read.facts.descriptors,
        rows=results.rows,
        related=related.origin,
        levels=tuple(loop.reports),
        seconds=clock.seconds,
        problems=reported,
        run_id=run_id,
        commit=commit,
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
