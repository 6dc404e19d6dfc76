"""The part of a rebuild that Spark does: resolving everything, and pushing everything.

Only imported when Spark is the engine: a small world needs no Java.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.bulk_run import resolve_batch
from jobs.exact_memberships import memberships_path
from jobs.push_to_redis import push_generation
from jobs.registered_sets import RegisteredSets
from jobs.resolved_sets import Bools, MemberRows, ResolvedSets
from jobs.session import spark_session
from jobs.spark_errors import spark_errors_as
from jobs.subscription_lines import REASON, WHERE, SubscriptionFrames
from redis_link.generation_push import PushSource
from redis_link.push_report import PushReport
from redis_link.sweep import Retention
from redis_link.tally import Int64s
from schemas.errors import WorldError
from schemas.membership import DESCRIPTOR, PEID, STAGE_NO, SUB_ID, VERSION
from world.store import WorldStore

SOURCE = "registered subscriptions"


class SparkRebuild:
    """Resolves and pushes in the session that is there, or in one that it starts and stops."""

    def __init__(self, world: str, out: str, say: Callable[[str], None]) -> None:
        self._world = world
        self._out = out
        self._say = say
        self._own: SparkSession | None = None

    def close(self) -> None:
        """Stop the session, if one was started here."""
        if self._own is not None:
            self._own.stop()
            self._own = None

    def resolve(self, version: int, registered: RegisteredSets) -> tuple[ResolvedSets, int]:
        """Memberships of the version into Delta; the members by neighborhood, and all rows."""
        with spark_errors_as(WorldError, "Spark failed"):
            spark = self._session()
            facts = resolve_batch(
                spark, self._world, version, _frames(spark, registered), SOURCE, self._out,
                self._say,
            )  # fmt: skip
        for line in facts.lines():
            self._say(line)
        existing = WorldStore(self._world).entities(version).column(PEID).to_numpy()
        return read_resolved(self._out, version, registered, existing), facts.rows

    def push(self, source: PushSource, redis_url: str, retention: Retention) -> PushReport:
        """All memberships of the version into Redis, written by the executors."""
        with spark_errors_as(WorldError, "Spark failed"):
            return push_generation(
                self._session(), memberships_path(self._out), source.version, redis_url,
                coverage=source.coverage, retention=retention, say=self._say,
            )  # fmt: skip

    def _session(self) -> SparkSession:
        there = SparkSession.getActiveSession()
        if there is not None:
            return there
        self._own = spark_session("spaps-rebuild")
        return self._own


def read_resolved(
    out: str, version: int, registered: RegisteredSets, existing: Int64s
) -> ResolvedSets:
    """The members by neighborhood out of the memberships: those of its first subscription.

    ``existing`` are the peids of the version. Visible stages alone stand there, so the next
    rebuild cannot see what lies behind the others.
    """
    # Subscriptions stand in the order of their sets.
    _, first = np.unique(registered.set_of, return_index=True)
    speakers = registered.sub_ids[first]
    rows = DeltaTable(memberships_path(out)).to_pyarrow_dataset().to_table(
        columns=[SUB_ID, PEID, STAGE_NO],
        filter=(ds.field(VERSION) == version) & ds.field(SUB_ID).isin(pa.array(speakers)),
    )  # fmt: skip
    by_number = np.argsort(speakers)
    places = np.searchsorted(speakers, rows.column(SUB_ID).to_numpy(), sorter=by_number)
    sets = by_number[places].astype(np.int32)
    stages = rows.column(STAGE_NO).to_numpy().astype(np.int32)
    peids = rows.column(PEID).to_numpy()
    order = np.lexsort((peids, stages, sets))
    shown = np.ones(len(order), np.bool_)
    return ResolvedSets(
        hashes=registered.hashes,
        resolved=_with_a_reference(registered, existing),
        rows=MemberRows(sets[order], stages[order], shown, peids[order]),
        sub_ids=registered.sub_ids,
        set_of=registered.set_of,
        whole=False,
    )


def _with_a_reference(registered: RegisteredSets, existing: Int64s) -> Bools:
    """For each set, whether at least one of its references exists."""
    counts = [0 if each is None else len(each.refs) for each in registered.neighborhoods]
    refs = [ref for each in registered.neighborhoods if each is not None for ref in each.refs]
    found = np.isin(np.array(refs, np.int64), existing)
    owners = np.repeat(np.arange(len(counts)), counts)
    with_one: Bools = np.bincount(owners[found], minlength=len(counts)) > 0
    return with_one


def _frames(spark: SparkSession, registered: RegisteredSets) -> SubscriptionFrames:
    """The subscriptions as they were read: what is registered by now is not among them."""
    texts = pa.array(registered.descriptors, pa.string()).take(pa.array(registered.set_of))
    rows = pa.table({SUB_ID: registered.sub_ids, DESCRIPTOR: texts})
    good = spark.createDataFrame(rows)
    bad = good.limit(0).select(F.lit("").alias(WHERE), SUB_ID, F.col(DESCRIPTOR).alias(REASON))
    return SubscriptionFrames(good, bad, bad_count=0)
