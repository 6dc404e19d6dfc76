"""A set that the change is said not to reach has the members that it had, on drawn worlds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from shapely import Point

from schemas.entity import CATEGORIES, GEOMETRY, NODE, PEID
from schemas.errors import NoReferenceError
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import read_neighborhood
from spatial_udfs.batch.compiled_slice import KnownNodes
from spatial_udfs.batch.descriptor_parts import descriptor_parts
from spatial_udfs.batch.graph_tables import graph_tables
from spatial_udfs.batch.stage_graph import graph_of
from spatial_udfs.batch.subscription_parts import part_of_texts
from spatial_udfs.bulk.buckets import BucketEntities
from spatial_udfs.entity_table import EntityTable, Int64s
from spatial_udfs.exact.exact_resolver import ExactResolver
from spatial_udfs.incremental import affected_nodes
from spatial_udfs.incremental.affected_nodes import AffectedTask, SliceGraph
from spatial_udfs.incremental.touched_entities import Touched, arrived_tree, touched_of
from tests.strategies.edited_worlds import ROW_OF_ROADS, Rows, road, rows_of, scenes
from tests.strategies.neighborhoods import IN_DEGREES
from tests.strategies.worlds import table_of

Scene = tuple[EntityTable, EntityTable, list[Neighborhood]]
Nodes = dict[int, set[int]]

SEARCH: Final = settings(
    max_examples=3_000,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
_scenes: Final = st.one_of(scenes(), scenes(srid=IN_DEGREES))


def members_of(world: EntityTable, described: list[Neighborhood]) -> Nodes:
    """The members of each node, by the exact resolver."""
    resolver = ExactResolver(world)
    found: Nodes = {}
    for each in described:
        nodes = [node[0] for node in graph_of(each.to_json())[4]]
        found |= {node: set() for node in nodes if node not in found}
        try:
            shown = replace(each, visible=tuple(True for _ in nodes))
            peids, stages = resolver.resolve(shown).rows()
        except NoReferenceError:
            continue
        for peid, stage in zip(peids.tolist(), stages.tolist(), strict=True):
            found[nodes[stage - 1]].add(peid)
    return found


def difference_of(old: EntityTable, new: EntityTable) -> Touched:
    before, after = ({row[0]: row[1:] for row in rows_of(world)} for world in (old, new))

    def same(peid: int) -> bool:
        if peid not in before or peid not in after:
            return False
        (names, shape), (now, there) = before[peid], after[peid]
        return set(names) == set(now) and shape.wkb == there.wkb

    peids = [peid for peid in sorted({*before, *after}) if not same(peid)]
    places = [after.get(peid, (None, None)) for peid in peids]
    return touched_of(
        pa.table(
            {
                PEID: pa.array(peids, pa.int64()),
                CATEGORIES: pa.array([names for names, _ in places], pa.list_(pa.string())),
                GEOMETRY: pa.array([shape and shape.wkb for _, shape in places], pa.binary()),
            }
        )
    )


class OldWorld:
    """A version in one bucket."""

    buckets = 1

    def __init__(self, table: EntityTable) -> None:
        self._table = table

    def entities(self, _: int) -> BucketEntities:
        zeros = np.zeros(len(self._table), np.int32)
        return BucketEntities(self._table.peids, zeros.astype(np.uint8), zeros, zeros.astype(bool))

    def geometries(self, _: int, asked: Int64s) -> pa.Array:
        shapes = self._table.geometries[np.searchsorted(self._table.peids, asked)]
        return pa.array(shapely.to_wkb(shapes).tolist(), pa.binary())


def unreached(scene: Scene) -> Nodes:
    """The nodes that are said to be as they were, with their old members."""
    old, new, described = scene
    before = members_of(old, described)
    texts = pa.array([each.to_json() for each in described], pa.string())
    [(_, part)] = descriptor_parts(part_of_texts(np.arange(len(described)), texts), 0, 1)
    graph = graph_tables(part.graph)
    known = KnownNodes(np.array(sorted(before), np.int64), np.zeros(len(before), np.int64))
    pairs = [(node, peid) for node, peids in sorted(before.items()) for peid in sorted(peids)]
    rows = tuple(np.array(pairs, np.int64).reshape(-1, 2).T)
    files: dict[str, Any] = {"graph": graph, "known": known}
    touched = difference_of(old, new)
    stand_ins: Any = {
        "read": files.__getitem__,
        "touched": lambda: touched,
        "arrived": partial(arrived_tree, touched),
        "base": OldWorld(old),
        "sets": SimpleNamespace(rows=lambda _bucket, _known: rows),
    }
    task = AffectedTask(**stand_ins, slices={0: ("graph", "known")}, srid=old.srid)
    as_before = task.unaffected(0, [hits for _, hits in task.ask((0, 0))])
    nodes = graph.nodes.column(NODE).to_numpy()[as_before].tolist()
    return {node: before[node] for node in nodes}


def is_wrong(scene: Scene) -> bool:
    _, new, described = scene
    after = members_of(new, described)
    return any(after[node] != members for node, members in unreached(scene).items())


@settings(max_examples=150, deadline=None)
@given(_scenes)
def test_what_is_not_reached_is_as_it_was(scene: Scene) -> None:
    assert not is_wrong(scene)


def test_some_sets_are_not_reached() -> None:
    def takes_something_over(scene: Scene) -> bool:
        old, new, _ = scene
        is_changed = len(difference_of(old, new).peids) > 0
        return is_changed and any(unreached(scene).values())

    find(_scenes, takes_something_over, settings=SEARCH)


def nothing_seen(*arguments: Any) -> Any:
    return np.zeros(len(arguments[-1]), np.bool_)


def no_nodes(_: Any, nodes: SliceGraph, *__: Any) -> Any:
    return np.zeros(len(nodes.ids), np.bool_)


ZONE: Final[Rows] = [(1, ("zone",), Point(0, 0))]
# Rules, how to leave one out, and a change that it is for: rows before and after, the neighborhood.
RULES: Final[dict[str, tuple[Any, str, Callable[..., Any], Rows, Rows, str]]] = {
    "what arrived near": (
        affected_nodes, "seeing", nothing_seen,
        ZONE, [*ZONE, (2, ("road",), Point(3, 4))], "({1},{road},DW5)",
    ),
    "what holds from afar": (
        affected_nodes, "sight_of", lambda _: 0.0,
        ZONE, [*ZONE, (2, ("road",), Point(900, 0))], "({1},{road},NOT DW5)",
    ),
    # Road 2 goes, and road 3 with it, which touches nothing that has changed for its stage.
    "what refers to it": (
        SliceGraph, "spread", lambda *_: None,
        ROW_OF_ROADS, [road(1, 0, 1), road(3, 2, 3)], "({1},{road},T) • (Anc,{road},T)",
    ),
    "places": (
        AffectedTask, "_seeing_places", no_nodes,
        ZONE, [*ZONE, (2, ("road",), Point(3, 4))], "({at:POINT(0 0)},{road},DW5)",
    ),
    "references and members": (
        affected_nodes, "NodeHits", lambda numbers: SimpleNamespace(numbers=numbers[:0]),
        ROW_OF_ROADS, [road(1, 0, 1), road(3, 2, 3)], "({1},{road},T)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_needed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, instead, before, after, text = RULES[rule]
    old, new = (
        replace(table_of(rows, version), srid=IN_DEGREES)
        for version, rows in enumerate((before, after), start=1)
    )
    scene = (old, new, [read_neighborhood(text)])
    assert not is_wrong(scene)
    monkeypatch.setattr(owner, name, instead)
    assert is_wrong(scene)
