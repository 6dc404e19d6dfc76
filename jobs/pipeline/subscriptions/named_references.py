"""Keys, names and places among the references of a batch: what they are in the world version.

Keys and names are joined with the entities. Of the rows that are found nothing comes to the
driver: they go to the slice that asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.exchange import BLOCK_TYPES, DRIVER, Sent, Tasks, batches_of
from jobs.pipeline.scratch import Scratch
from jobs.pipeline.subscriptions.graph_slices import Graph, SliceFacts
from jobs.pipeline.subscriptions.graph_tables import NAMED, GraphTables
from jobs.pipeline.world_tables import WorldVersion
from schemas.entity import CATEGORIES, KEY, NAME, NODE, PEID
from schemas.language import references
from spatial_udfs.bulk.numbered_conditions import CONDITION
from spatial_udfs.bulk.stage_graph import LEVEL, REFERRED
from spatial_udfs.entity_table import Int64s
from spatial_udfs.named_references import LISTED, NamedEntity, ambiguous_name
from spatial_udfs.place_geometries import projected_places

# Up to so many keys and names are sent to every task that reads entities.
BROADCAST_TEXTS: Final = 20_000

_SLICE: Final = "slice"
_CATEGORY: Final = "category"
_COUNT: Final = "count"
_RANK: Final = "rank"
_WANTED: Final = pa.schema([(_SLICE, pa.int32()), (NAMED, pa.string())])
_WANTED_TYPES: Final = f"{_SLICE} int, {NAMED} string"
_PLACE: Final = f"{references.PLACE}:"


class PlaceQuestion(NamedTuple):
    """A node of level 1 with places among its references."""

    node: int  # its hash
    condition: str
    places: tuple[str, ...]


class SliceReferences(NamedTuple):
    """What the keys, names and places of a slice are; texts as ``named_texts`` has them."""

    nodes: Int64s  # of level 0, by hash, one for each entity
    entities: Int64s
    questions: list[PlaceQuestion]
    unknown: set[str]
    errors: dict[str, str]
    # Nodes of level 0 with a wrong reference: they have none.
    wrong: Int64s
    srid: int  # of the version, for the places


class BoundSlice(NamedTuple):
    """The file of a slice's SliceReferences, and what of it concerns later steps."""

    number: int
    path: str
    places: int  # of all questions
    with_problems: bool


NOTHING_BOUND: Final = SliceReferences(
    np.empty(0, np.int64), np.empty(0, np.int64), [], set(), {}, np.empty(0, np.int64), 0
)


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
        texts = [text for text in named if not text.startswith(_PLACE)]
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
        F.element_at(CATEGORIES, 1).alias(_CATEGORY),
        F.explode(texts).alias(NAMED),
    )
    same = Window.partitionBy(_SLICE, NAMED)
    found = known.join(wanted, on=NAMED, how="inner").select(
        _SLICE, NAMED, PEID, KEY, _CATEGORY,
        F.count(F.lit(1)).over(same).alias(_COUNT),
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


def references_of(graph: GraphTables, found: Sequence[pa.Table], srid: int) -> SliceReferences:
    """Return what the references of a slice are, out of the entities that were found for it."""
    named = graph.named.column(NAMED).to_pylist()
    bases = graph.named.column(NODE).to_pylist()
    entities: dict[str, list[NamedEntity]] = {}
    counts: dict[str, int] = {}
    for row in (row for rows in found for row in rows.to_pylist()):
        one = NamedEntity(row[PEID], row[KEY], row[_CATEGORY])
        entities.setdefault(row[NAMED], []).append(one)
        counts[row[NAMED]] = row[_COUNT]
    errors = {
        text: str(ambiguous_name(text.partition(":")[2], count, sorted(entities[text])))
        for text, count in counts.items()
        if count > 1
    }
    every = {text.removeprefix(_PLACE) for text in named if text.startswith(_PLACE)}
    lacking = {f"{_PLACE}{place}" for place in projected_places(sorted(every), srid)[1]}
    wrong = {base for base, text in zip(bases, named, strict=True) if text in errors}
    peids: list[tuple[int, int]] = []
    places: dict[int, list[str]] = {}
    unknown = set(lacking)
    for base, text in zip(bases, named, strict=True):
        if text.startswith(_PLACE):
            if text not in lacking and base not in wrong:
                places.setdefault(base, []).append(text.removeprefix(_PLACE))
        elif text not in entities:
            unknown.add(text)
        elif base not in wrong:
            peids.append((base, entities[text][0].peid))
    nodes, own = np.array(peids, np.int64).reshape(-1, 2).T
    questions = list(_questions(graph, places)) if places else []
    return SliceReferences(
        nodes, own, questions, unknown, errors, np.array(sorted(wrong), np.int64), srid
    )


def _questions(graph: GraphTables, places: dict[int, list[str]]) -> Iterator[PlaceQuestion]:
    """Yield the nodes of level 1 whose references are these; each refers to one node."""
    first = graph.nodes.filter(pa.array(graph.nodes.column(LEVEL).to_numpy() == 1))
    columns = (first.column(name).to_pylist() for name in (NODE, REFERRED, CONDITION))
    for node, (base,), condition in zip(*columns, strict=True):
        if base in places:
            yield PlaceQuestion(node, condition, tuple(places[base]))
