"""Keys, names and places among the references of a slice: what they are in a world version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from schemas.entity import KEY, NODE, PEID
from schemas.language import references
from spatial_udfs.batch.graph_tables import NAMED, GraphTables
from spatial_udfs.batch.numbered_conditions import CONDITION
from spatial_udfs.batch.stage_graph import LEVEL, REFERRED
from spatial_udfs.entity_keys import NamedEntity, ambiguous_name
from spatial_udfs.entity_table import Int64s
from spatial_udfs.place_geometries import projected_places

# Columns of found entities beside PEID, KEY and NAMED: its first category, and how many there are.
CATEGORY: Final = "category"
COUNT: Final = "count"
PLACE_PREFIX: Final = f"{references.PLACE}:"


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


NOTHING_BOUND: Final = SliceReferences(
    np.empty(0, np.int64), np.empty(0, np.int64), [], set(), {}, np.empty(0, np.int64), 0
)


def references_of(graph: GraphTables, found: Sequence[pa.Table], srid: int) -> SliceReferences:
    """Return what the references of a slice are, out of the entities that were found for it."""
    named = graph.named.column(NAMED).to_pylist()
    bases = graph.named.column(NODE).to_pylist()
    entities: dict[str, list[NamedEntity]] = {}
    counts: dict[str, int] = {}
    for row in (row for rows in found for row in rows.to_pylist()):
        one = NamedEntity(row[PEID], row[KEY], row[CATEGORY])
        entities.setdefault(row[NAMED], []).append(one)
        counts[row[NAMED]] = row[COUNT]
    errors = {
        text: str(ambiguous_name(text.partition(":")[2], count, sorted(entities[text])))
        for text, count in counts.items()
        if count > 1
    }
    every = {text.removeprefix(PLACE_PREFIX) for text in named if text.startswith(PLACE_PREFIX)}
    lacking = {f"{PLACE_PREFIX}{place}" for place in projected_places(sorted(every), srid)[1]}
    wrong = {base for base, text in zip(bases, named, strict=True) if text in errors}
    peids: list[tuple[int, int]] = []
    places: dict[int, list[str]] = {}
    unknown = set(lacking)
    for base, text in zip(bases, named, strict=True):
        if text.startswith(PLACE_PREFIX):
            if text not in lacking and base not in wrong:
                places.setdefault(base, []).append(text.removeprefix(PLACE_PREFIX))
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
