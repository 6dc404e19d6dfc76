"""Resolves and pushes for a rebuild, on Spark.

The module is imported only if Spark is the engine, because a small world needs no Java.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jobs.pipeline.bulk_run import resolve_batch
from jobs.pipeline.generation.spark_push import push_generation
from jobs.pipeline.memberships.memberships_table import CommitChoice
from jobs.pipeline.run_facts import RunFacts
from jobs.pipeline.session import spark_session
from jobs.pipeline.spark_errors import spark_errors_as
from jobs.pipeline.subscriptions.subscription_lines import subscriptions_of
from rebuild.exact_workers import ExactPart, Numbered, WorldPlace
from rebuild.registered_sets import RegisteredSets
from redis_link.generation.generation_push import PushReport, PushSource
from redis_link.generation.quality_gate import QualityGate
from redis_link.generation.sweep import Retention
from redis_link.sets.pair_arrays import Int64s
from schemas.errors import WorldError
from schemas.membership import PEID, STAGE_NO, SUB_ID, VERSION
from spatial_udfs.entity_table import Bools
from spatial_udfs.incremental.member_rows import NO_ROWS, MemberRows
from spatial_udfs.place_geometries import projected_places
from world.memberships.membership_table import memberships_path
from world.memberships.resolved_sets import ResolvedSets
from world.versions.delta_tables import delta_rows, find_table, open_table
from world.versions.store import WorldStore

SOURCE: Final = "registered subscriptions"
# Beside the table of memberships; only while Spark resolves a part.
PART_FOLDER: Final = "rebuild-part"


class SparkRebuild:
    """Resolves and pushes in the active session, or in a session of its own."""

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

    def resolve(
        self,
        place: WorldPlace,
        sets: Sequence[Numbered],
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> ExactPart:
        """Resolve some of the sets, by a temporary table in which set numbers are the subIds."""
        if not sets:
            return ExactPart(NO_ROWS, (), 0)
        folder = f"{self._out.rstrip('/')}/{PART_FOLDER}"
        numbers = np.array([number for number, _ in sets], np.int64)
        # Invisible stages are wanted too: the next rebuild starts from them.
        texts = [replace(each, visible=(True,) * len(each.visible)).to_json() for _, each in sets]
        try:
            self._resolve_batch(place.version, numbers, pa.array(texts, pa.string()), folder)
            found = _rows(folder, place.version)
        finally:
            _remove_part(folder)
        progress(len(sets), len(sets))
        neighborhoods = dict(sets)
        visible = {number: (False, *each.visible) for number, each in neighborhoods.items()}
        shown = [
            visible[number][stage]
            for number, stage in zip(found.sets.tolist(), found.stages.tolist(), strict=True)
        ]
        existing, _ = place.table.positions_of(
            np.array([ref for each in neighborhoods.values() for ref in each.refs], np.int64)
        )
        there = set(place.table.peids[existing].tolist())
        lacking = [
            n
            for n, each in neighborhoods.items()
            if there.isdisjoint(each.refs)
            and not len(projected_places(each.places, place.table.srid)[0])
        ]
        rows = replace(found, shown=np.array(shown, np.bool_))
        return ExactPart(rows, tuple(lacking), len(sets))

    def resolve_all(
        self, version: int, registered: RegisteredSets, run: str
    ) -> tuple[ResolvedSets, RunFacts]:
        """Write the memberships of the version to Delta; return its members by neighborhood."""
        texts = pa.array(registered.descriptors, pa.string()).take(pa.array(registered.set_of))
        facts = self._resolve_batch(version, registered.sub_ids, texts, self._out, run)
        store = WorldStore(self._world)
        existing = store.entities(version).column(PEID).to_numpy()
        resolved = registered.with_a_reference(existing, store.facts_of(version).srid)
        table = open_table(memberships_path(self._out), facts.commit)
        return read_resolved(table, version, registered, resolved), facts

    def _resolve_batch(
        self, version: int, numbers: Int64s, texts: pa.StringArray, out: str, run: str = ""
    ) -> RunFacts:
        with spark_errors_as(WorldError, "Spark failed"):
            spark = self._session()
            # The subscriptions as they were read, without those registered since then.
            subscriptions = subscriptions_of(spark, numbers, texts, SOURCE)
            facts = resolve_batch(
                spark, self._world, version, subscriptions, SOURCE, out, self._say, run=run
            )
        for line in facts.lines():
            self._say(line)
        return facts

    def push(
        self,
        source: PushSource,
        redis_url: str,
        retention: Retention,
        before_switch: Callable[[int], None],
        gate: QualityGate | None = None,
    ) -> PushReport:
        """Push all memberships of the version into Redis; executors write them."""
        with spark_errors_as(WorldError, "Spark failed"):
            return push_generation(
                self._session(), memberships_path(self._out),
                CommitChoice(source.version, source.run or None), redis_url,
                coverage=source.coverage, world=source.world, retention=retention, say=self._say,
                before_switch=before_switch, gate=gate,
            )  # fmt: skip

    def _session(self) -> SparkSession:
        there = SparkSession.getActiveSession()
        if there is not None:
            return there
        self._own = spark_session("spaps-rebuild")
        return self._own


def read_resolved(
    table: DeltaTable, version: int, registered: RegisteredSets, resolved: Bools
) -> ResolvedSets:
    """Return the members of each neighborhood, which are those of its first subscription.

    ``resolved`` tells which neighborhoods have a reference. The table has visible stages only, so
    the next rebuild does not know the members of the others.
    """
    # Subscriptions stand in the order of their sets.
    _, first = np.unique(registered.set_of, return_index=True)
    speakers = registered.sub_ids[first]
    # Values of their own: no thread of Arrow may hold memory of numpy.
    of_speakers = ds.field(SUB_ID).isin(pa.array(speakers.tolist(), pa.int64()))
    rows = delta_rows(table, [SUB_ID, PEID, STAGE_NO], (ds.field(VERSION) == version) & of_speakers)
    by_number = np.argsort(speakers)
    places = np.searchsorted(speakers, rows.column(SUB_ID).to_numpy(), sorter=by_number)
    sets = by_number[places].astype(np.int32)
    stages = rows.column(STAGE_NO).to_numpy().astype(np.int32)
    peids = rows.column(PEID).to_numpy()
    order = np.lexsort((peids, stages, sets))
    shown = np.ones(len(order), np.bool_)
    return ResolvedSets(
        hashes=registered.hashes,
        descriptors=registered.descriptors,
        resolved=resolved,
        rows=MemberRows(sets[order], stages[order], shown, peids[order]),
        sub_ids=registered.sub_ids,
        set_of=registered.set_of,
        whole=False,
    )


def _rows(out: str, version: int) -> MemberRows:
    """Return all rows of a table in which set numbers are the subIds."""
    table = open_table(memberships_path(out))
    found = delta_rows(table, [SUB_ID, PEID, STAGE_NO], ds.field(VERSION) == version)
    sets = found.column(SUB_ID).to_numpy().astype(np.int32)
    stages = found.column(STAGE_NO).to_numpy().astype(np.int32)
    peids = found.column(PEID).to_numpy()
    order = np.lexsort((peids, stages, sets))
    return MemberRows(sets[order], stages[order], np.ones(len(order), np.bool_), peids[order])


def _remove_part(folder: str) -> None:
    """Remove the temporary table; in an object store remove its rows."""
    if "://" not in folder:
        shutil.rmtree(folder, ignore_errors=True)
    elif (table := find_table(memberships_path(folder))) is not None:
        table.delete()
