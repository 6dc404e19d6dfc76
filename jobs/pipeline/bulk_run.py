"""One run of the bulk job, from subscriptions and a world version to a commit of memberships.

docs/pipeline.md shows it as a picture, table by table.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from jobs.pipeline.exchange import Tasks
from jobs.pipeline.memberships.membership_rows import Results, write_results
from jobs.pipeline.memberships.run_facts import (
    FoundProblems,
    Problems,
    RunFacts,
    find_problems,
    write_run,
)
from jobs.pipeline.pairs.related_tables import ensure_related
from jobs.pipeline.session import parallelism_of
from jobs.pipeline.stages.batch_begin import begin_batch
from jobs.pipeline.stages.level_loop import LevelLoop
from jobs.pipeline.stages.resolved_set_cache import SetCache, open_set_cache
from jobs.pipeline.stages.unchanged_sets import TakenOver, take_over_sets
from jobs.pipeline.subscriptions.graph_slices import Graph, slice_count, to_graph
from jobs.pipeline.subscriptions.named_references import bind_references
from jobs.pipeline.subscriptions.snapshot import Snapshot, Subscriptions, snapshot
from jobs.pipeline.table_places import lake_table
from jobs.pipeline.world_tables import open_world
from redis_link.generation.generation_push import StepClock
from schemas.errors import NothingResolvedError, SpapsError, WorldError
from schemas.membership import MEMBERSHIPS_TABLE, VERSION
from schemas.settings import load_settings
from spatial_udfs.bulk.buckets import bucket_count
from world.lake.bulk_tables import PROBLEMS_TABLE, REASON, WHERE
from world.lake.scratch import SCRATCH_FOLDER, Scratch, new_scratch
from world.memberships.membership_table import SCHEMA, create_memberships
from world.memberships.run_commits import new_run_id


@dataclass(slots=True)
class Run:
    """A run: its id, its clock, and where it leaves what it has done so far."""

    run_id: str
    started_at: datetime
    clock: StepClock
    tasks: Tasks
    scratch: Scratch

    @classmethod
    def start(cls, spark: SparkSession, out: str, run_id: str) -> Run:
        """Begin a run that writes into a folder."""
        run_id = run_id or new_run_id()
        tasks = Tasks(spark, parallelism_of(spark))
        scratch = new_scratch(lake_table(spark, f"{out}/{SCRATCH_FOLDER}"), run_id)
        return cls(run_id, datetime.now(UTC), StepClock(), tasks, scratch)


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
    incremental: bool = False,
    may_resolve_nothing: bool = True,
    before_writing: Callable[[], object] = lambda: None,
) -> RunFacts:
    """Resolve all subscriptions on a world version into the tables under ``out``.

    ``run`` is the id of a run that this one is a part of. ``incremental``: sets that the change
    since an earlier version cannot reach are taken over from there. Where nothing can be resolved
    and that may not be, a NothingResolvedError says why, and the memberships stay as they are.
    ``before_writing`` is called when the input is there, before anything is computed.
    """
    folder = out.rstrip("/")
    world = open_world(spark, world_path, version)
    say(f"world {world.path}, version {world.version}: {world.entity_count:,} entities")
    before_writing()
    with ExitStack() as cleaning:
        this = Run.start(spark, folder, run)
        cleaning.callback(this.scratch.remove)
        tasks, scratch, clock = this.tasks, this.scratch, this.clock
        # Reading subscriptions and finding pairs do not need each other.
        beside = cleaning.enter_context(ThreadPoolExecutor(1, "subscriptions"))
        buckets = bucket_count(world.entity_count)
        reading = beside.submit(_read, tasks, scratch, subscriptions, buckets)
        table = lake_table(spark, f"{folder}/{MEMBERSHIPS_TABLE}")
        before = table.paths(world.version)
        related = ensure_related(tasks, world, say)
        say(f"related pairs: {related.pair_count:,}, {related.origin}")
        clock.lap("related")
        read, graph = reading.result()
        loop = LevelLoop(tasks, scratch, world, related.buckets, say)
        settings, taken = load_settings().bulk, TakenOver()
        if incremental:
            most = settings.most_changed
            try:
                taken = take_over_sets(tasks, scratch, world, related, graph, most, say)
            except WorldError as error:
                # The version before is damaged; this one does without it.
                say(f"all sets are resolved: {error}")
            clock.lap("take over")
        bound = bind_references(tasks, scratch, graph, world)
        batch = begin_batch(
            tasks, scratch, graph, open_set_cache(world), related, settings.most_conditions, bound
        )
        reused = f", {batch.known_count:,} known from earlier runs" if batch.known_count else ""
        say(
            f"subscriptions: {graph.subscriptions:,} read, "
            f"{graph.descriptors:,} different descriptors, "
            f"{batch.node_count:,} different sets to resolve{reused}"
        )
        clock.lap("read")
        reports = loop.run(batch)
        clock.lap("resolve")
        problems = find_problems(
            tasks, scratch, lake_table(spark, f"{folder}/{PROBLEMS_TABLE}"), world.version,
            graph, read.places, batch.missing, bound=bound,
        )  # fmt: skip
        if not may_resolve_nothing:
            _refuse_nothing(graph, problems, folder)
        clock.lap("report")
        results = write_results(tasks, scratch, batch, table, world.version)
        create_memberships(table.uri, table.storage_options)
        commit = table.replace_version(
            world.version,
            results.memberships,
            SCHEMA,
            [VERSION],
            run=this.run_id,
            before=before,
        )
        say(f"memberships: {results.rows:,} rows in {folder}/{MEMBERSHIPS_TABLE}")
        clock.lap("write")
        _keep_sets(batch.sets, results, say)
        reported = problems.commit()
    facts = RunFacts(
        version=world.version,
        started_at=this.started_at,
        world=world.path,
        source=source,
        subscriptions=_subscription_count(graph, problems),
        descriptors=graph.descriptors,
        rows=results.rows,
        related=related.origin,
        levels=tuple(reports),
        seconds=clock.seconds,
        problems=reported,
        run_id=this.run_id,
        commit=commit,
        world_commit=world.commit,
        snapshot=read.identity,
        taken_over=taken,
    )
    write_run(spark, folder, facts)
    return facts


def _read(
    tasks: Tasks, scratch: Scratch, subscriptions: Subscriptions, buckets: int
) -> tuple[Snapshot, Graph]:
    read = snapshot(tasks, scratch, subscriptions)
    slices = slice_count(read.texts, buckets, tasks.parallelism)
    return read, to_graph(tasks, scratch, read, slices)


def _subscription_count(graph: Graph, problems: Problems) -> int:
    """Return how many subscriptions were given, readable or not."""
    return graph.subscriptions + problems.counts.get("unreadable", 0)


def _refuse_nothing(graph: Graph, problems: FoundProblems, folder: str) -> None:
    """Raise an error when subscriptions were given and not one of them can be resolved."""
    given = _subscription_count(graph, problems)
    if not given or problems.unresolved_count < given:
        return
    problems.commit()
    [first, *_] = problems.unresolved()
    raise NothingResolvedError(
        f"none of the {given:,} subscriptions could be resolved on world version "
        f"{problems.version}, and no memberships were written; such as {first[WHERE]}: "
        f"{first[REASON]} (all of them: table {folder}/{PROBLEMS_TABLE})"
    )


def _keep_sets(sets: SetCache, results: Results, say: Callable[[str], None]) -> None:
    """Keep what was resolved for later runs; this one is complete without it."""
    trouble = results.trouble
    if trouble is None and results.sets:
        try:
            sets.keep(results.sets)
        except SpapsError as error:
            trouble = str(error)
    if trouble is not None:
        say(f"the resolved sets could not be kept for later runs: {trouble}")
