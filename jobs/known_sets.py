"""Sets that earlier runs resolved on a world version: no run has to resolve them again.

The table ``resolvedSets`` has their members, and one row more for each set that tells which it is:
so an empty set is known too. A run adds its rows in one commit and changes none, so runs at the
same time need not know of each other: of a set that two have resolved, the rows of one count.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.delta_tables import append_to_version, is_table
from jobs.graph_tables import Int64s
from jobs.kept_frames import kept_and_counted, sent, work_behind
from jobs.related_writing import CURRENT_METHOD
from jobs.spark_errors import spark_errors_as
from jobs.world_tables import WorldVersion
from schemas.entity import CHECKSUM, VERSION
from schemas.errors import SpapsError
from schemas.related import (
    ENTITY,
    METHOD,
    NODE,
    PROOF,
    RESOLVED_SET_COLUMNS,
    RESOLVED_SETS_TABLE,
    RUN,
)

# Raise it whenever a set could come out differently from before, for the same related pairs.
SET_METHOD: Final = 1
_METHOD: Final = CURRENT_METHOD * 1_000 + SET_METHOD


@dataclass(frozen=True, slots=True)
class KnownSets:
    """Nodes of a batch that need not be resolved, and their members (node, entity)."""

    nodes: Int64s
    members: DataFrame | None = None
    count: int = 0

    def among(self, nodes: Int64s) -> bool:
        """Whether one of these nodes is known."""
        return bool(np.isin(nodes, self.nodes).any())


def open_known_sets(spark: SparkSession, world: WorldVersion, nodes: pa.Table) -> KnownSets:
    """Those of the nodes (columns node, proof) that an earlier run has resolved."""
    nothing = KnownSets(np.empty(0, np.int64))
    path = world.table(RESOLVED_SETS_TABLE)
    if not len(nodes) or not is_table(spark, path):
        return nothing
    rows = spark.read.format("delta").load(path).where(F.col(VERSION) == world.version)
    asked = sent(spark, nodes.select([NODE, PROOF]))
    valid = rows.where((F.col(CHECKSUM) == world.checksum) & (F.col(METHOD) == _METHOD))
    found = valid.join(asked, on=[NODE, PROOF], how="inner")
    known = found.groupBy(NODE).agg(F.min(RUN).alias(RUN)).toArrow()
    if not len(known):
        return nothing
    found = rows.where(F.col(ENTITY).isNotNull()).join(
        sent(spark, known), on=[NODE, RUN], how="inner"
    )
    members, count = kept_and_counted(found.select(NODE, ENTITY))
    return KnownSets(known.column(NODE).to_numpy(), members, count)


class KeepingSets:
    """Writes the sets that a run resolved, in a thread of its own.

    The run is complete without them: when they cannot be written, that is only said.
    """

    def __init__(
        self, spark: SparkSession, world: WorldVersion, nodes: pa.Table, members: list[DataFrame]
    ) -> None:
        """Begin."""
        self._spark = spark
        self._world = world
        # Told apart from any other run without asking anybody.
        self._run = secrets.randbits(63)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="resolved-sets")
        self._written: Future[None] | None = None
        if len(nodes):
            self._written = self._thread.submit(self._write, nodes, members)

    def finish(self, say: Callable[[str], None]) -> None:
        """Wait until all is written."""
        try:
            if self._written is not None:
                self._written.result()
        except SpapsError as error:
            say(str(error))

    def release(self) -> None:
        """Wait, whatever came out of it."""
        self._thread.shutdown()

    def _write(self, nodes: pa.Table, members: list[DataFrame]) -> None:
        work_behind(self._spark)
        with spark_errors_as(SpapsError, "the resolved sets could not be kept for later runs"):
            told = self._spark.createDataFrame(nodes.select([NODE, PROOF])).select(
                NODE,
                PROOF,
                F.lit(self._world.checksum).alias(CHECKSUM),
                F.lit(_METHOD).alias(METHOD),
            )
            rows = reduce(DataFrame.unionAll, members)
            rows = rows.unionByName(told, allowMissingColumns=True).coalesce(
                self._spark.sparkContext.defaultParallelism
            )
            stamped = rows.withColumns(
                {
                    VERSION: F.lit(self._world.version).cast("bigint"),
                    RUN: F.lit(self._run).cast("bigint"),
                }
            )
            append_to_version(
                stamped.select(*RESOLVED_SET_COLUMNS), self._world.table(RESOLVED_SETS_TABLE)
            )
