"""Keys, names and places among the references of a batch: what they are in the world version.

Keys and names are joined with the entities. Of the rows that are found nothing comes to the
driver: they go to the slice that asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.exchange import BLOCK_TYPES, DRIVER, Sent, Tasks, batches_of
from jobs.pipeline.subscriptions.graph_slices import Graph, SliceFacts
from jobs.pipeline.world_tables import WorldVersion
from schemas.entity import CATEGORIES, KEY, NAME, PEID
from schemas.language import references
from spatial_udfs.batch.graph_tables import NAMED
from spatial_udfs.batch.slice_references import CATEGORY, COUNT, PLACE_PREFIX, references_of
from spatial_udfs.entity_keys import LISTED
from world.lake.scratch import Scratch

# Up to so many keys and names are sent to every task that reads entities.
BROADCAST_TEXTS: Final = 20_000

_SLICE: Final = "slice"
_RANK: Final = "rank"
_WANTED: Final = pa.schema([(_SLICE, pa.int32()), (NAMED, pa.string())])
_WANTED_TYPES: Final = f"{_SLICE} int, {NAMED} string"


class BoundSlice(NamedTuple):
    """The file of a slice's SliceReferences, and what of it concerns later steps."""

    number: int
    path: str
    places: int  # of all questions
    with_problems: bool


class _Wanted(NamedTuple):
    path: str
    size: int


def bind_references(
    tasks: Tasks, scratch: Scratch, graph: Graph, world: WorldVersion
) -> dict[int, BoundSlice]:
    """Find out what keys, names and places are, for the slices that have some, by slice."""
    slices = [facts for facts in graph.slices if facts.named]
    if not slices:
        return {}
    srid = world.srid

    def mark(facts: SliceFacts) -> Iterator[Sent]:
        yield facts.number, facts

    def bind(number: int, blocks: list[Any]) -> Iterator[Sent]:
        [facts] = [block for block in blocks if isinstance(block, SliceFacts)]
        rows = [block for block in blocks if isinstance(block, pa.Table)]
        found = references_of(scratch.get(facts.graph), rows, srid)
        has_problems = bool(found.unknown or found.errors)
        path = scratch.put("references", found)
        places = sum(len(question.places) for question in found.questions)
        yield DRIVER, BoundSlice(number, path, places, has_problems)

    blocks = tasks.units(mark, slices)
    wanted = tasks.run(_WantedTask(scratch), slices, "list keys and names")
    if wanted:
        paths = [f"{scratch.at.uri}/{each.path}" for each in wanted]
        texts = tasks.spark.read.schema(_WANTED_TYPES).parquet(*paths)
        few = sum(each.size for each in wanted) <= BROADCAST_TEXTS
        rows = _entities_of(F.broadcast(texts) if few else texts, world.named_entities())
        blocks = blocks.unionByName(rows.mapInArrow(_by_slice, BLOCK_TYPES))
    count = 1 + max(facts.number for facts in slices)
    bound: list[BoundSlice] = tasks.values(
        tasks.cells(blocks, bind, count), "look keys, names and places up"
    )
    return {each.number: each for each in bound}


class _WantedTask:
    """Writes the keys and names of a slice, each once."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch

    def __call__(self, facts: SliceFacts) -> Iterator[Sent]:
        named = self._scratch.get(facts.graph).named.column(NAMED).unique().to_pylist()
        texts = [text for text in named if not text.startswith(PLACE_PREFIX)]
        if texts:
            columns = [pa.repeat(pa.scalar(facts.number, pa.int32()), len(texts)), pa.array(texts)]
            rows = pa.table(columns, schema=_WANTED)
            yield DRIVER, _Wanted(self._scratch.put_rows("wanted", rows), len(texts))


def _entities_of(wanted: DataFrame, entities: DataFrame) -> DataFrame:
    """Return the entities with each of the texts: all with a key, the first ones with a name."""
    key = F.coalesce(F.col(KEY), F.col(PEID).cast("string"))
    texts = F.array(
        F.concat(F.lit(f"{references.KEY}:"), key),
        F.concat(F.lit(f"{references.NAME}:"), F.col(NAME)),
    )
    # An entity without a name has a null there, which equals nothing.
    known = entities.select(
        PEID,
        key.alias(KEY),
        F.element_at(CATEGORIES, 1).alias(CATEGORY),
        F.explode(texts).alias(NAMED),
    )
    same = Window.partitionBy(_SLICE, NAMED)
    found = known.join(wanted, on=NAMED, how="inner").select(
        _SLICE, NAMED, PEID, KEY, CATEGORY,
        F.count(F.lit(1)).over(same).alias(COUNT),
        F.row_number().over(same.orderBy(PEID)).alias(_RANK),
    )  # fmt: skip
    return found.where(F.col(_RANK) <= LISTED).drop(_RANK)


def _by_slice(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack rows by the slice that asked for them."""

    def sent() -> Iterator[Sent]:
        for batch in batches:
            numbers = batch.column(_SLICE).to_numpy()
            for number in np.unique(numbers).tolist():
                chosen = pa.array(np.flatnonzero(numbers == number))
                yield number, pa.Table.from_batches([batch.take(chosen)]).drop_columns([_SLICE])

    yield from batches_of(sent())
