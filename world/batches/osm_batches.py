"""What executors do with Arrow batches of OSM elements, by the functions of ``world``.

A batch is written as a small extract in OPL, the text format of osmium, and goes through the very
code that reads a whole extract. So ways, areas and problems come out equal in both imports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import osmium
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from pyproj import CRS

from schemas import entity
from schemas.errors import SourceError
from world.batches.parquet_batches import ZONES, Batches, BatchFunction
from world.imports.geometry_checks import readable, storable
from world.imports.projection import WGS84, project, utm_zones
from world.sources.candidates import Candidates, Problem, ProblemKind, objects, problem_table
from world.sources.osm.entities import ExtractRows
from world.sources.osm.extract_pass import AwaitedAreas, Extract, read_elements
from world.sources.osm.peids import SegmentSeed, seeded_peid, segment_key
from world.sources.osm.rules import GeometryKind, Rules
from world.sources.osm.segments import RoadWay, passed_nodes, stretches_of
from world.sources.osm.spark_extract import (
    NODE,
    LocatedWays,
    X,
    Y,
    in_order,
    node_line,
    relation_line,
)
from world.versions import version_tables

# Columns of elements on their way; REFS is what LocatedWays are made of.
ID: Final = "id"
TAGS: Final = "tags"
REFS: Final = "refs"
WAY: Final = "way"
WAYS: Final = "ways"
MEMBERS: Final = "members"
JUNCTIONS: Final = "junctions"
IN_RELATION: Final = "inRelation"
# Columns of candidates beside those of entities and problems.
SEED: Final = "seed"

PASSES: Final = pa.schema([(WAY, pa.int64()), (NODE, pa.int64())])
# An entity to be, in degrees, when ``kind`` is null, else a problem.
CANDIDATES: Final = pa.schema(
    [
        *version_tables.UNVERSIONED_ENTITIES,
        *version_tables.UNVERSIONED_PROBLEMS.remove(2),
        (SEED, pa.list_(pa.int64())),
    ]
)


def passes_of_roads(rules: Rules) -> BatchFunction:
    """Return the task from batches of located ways to the nodes that roads pass, repeated."""

    def passes(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ways = LocatedWays.of(batch.column(ID), batch.column(REFS))
            found: list[tuple[int, int]] = []
            for way, tags, nodes in zip(
                ways.ids, batch.column(TAGS).to_pylist(), ways.nodes, strict=True
            ):
                if tags and rules.categories(GeometryKind.ROAD, dict(tags)):
                    stretches, _ = stretches_of((node, node in ways.places) for node in nodes)
                    road = RoadWay(way, stretches, (), None)
                    found += [(way, node) for node in passed_nodes(road)]
            columns = np.array(found, np.int64).reshape(-1, 2)
            yield pa.record_batch([pa.array(columns[:, 0]), pa.array(columns[:, 1])], schema=PASSES)

    return passes


def node_candidates(rules: Rules, source: str) -> BatchFunction:
    """Return the task from batches of tagged nodes to candidates and problems."""

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in (ID, TAGS, X, Y)]
            lines = {
                node: node_line(node, x, y, tags) for node, tags, x, y in zip(*columns, strict=True)
            }
            if len(lines) < batch.num_rows:
                raise SourceError(f"{source}: a node is twice in the extract; use 'osmium sort'")
            yield from _candidates(in_order(lines), source, rules, AwaitedAreas(), frozenset())

    return read


def way_candidates(rules: Rules, source: str) -> BatchFunction:
    """Return the task from batches of located ways with junctions to candidates and problems."""

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ways = LocatedWays.of(batch.column(ID), batch.column(REFS))
            tags = batch.column(TAGS).to_pylist()
            in_relation = batch.column(IN_RELATION).to_pylist()
            members = {way for way, is_one in zip(ways.ids, in_relation, strict=True) if is_one}
            junctions = frozenset(pc.list_flatten(batch.column(JUNCTIONS)).to_pylist())
            lines = [*ways.node_lines(), *ways.way_lines(tags)]
            awaited = AwaitedAreas(members=members)
            yield from _candidates(lines, source, rules, awaited, junctions)

    return read


def relation_candidates(rules: Rules, source: str) -> BatchFunction:
    """Return the task from batches of area relations with their ways to candidates and problems."""

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            there = pc.list_flatten(batch.column(WAYS))
            ids = pc.struct_field(there, WAY)
            _, first = np.unique(ids.to_numpy(), return_index=True)
            refs = pc.struct_field(there, REFS)
            ways = LocatedWays.of(ids.take(pa.array(first)), refs.take(pa.array(first)))
            awaited = AwaitedAreas(members_there=set(ways.ids))
            lines: dict[int, str] = {}
            columns = [batch.column(name).to_pylist() for name in (ID, TAGS, MEMBERS)]
            for relation, tags, members in zip(*columns, strict=True):
                refs_of = tuple(member["ref"] for member in members)
                awaited.await_relation(relation, dict(tags), refs_of, rules)
                roles = [(member["ref"], member["role"]) for member in members]
                lines[relation] = relation_line(relation, tags, roles)
            if len(lines) < batch.num_rows:
                raise SourceError(f"{source}: a relation is twice in it; use 'osmium sort'")
            # Without their tags the ways are outlines and nothing else.
            every = [
                *ways.node_lines(),
                *ways.way_lines([()] * len(ways.ids)),
                *in_order(lines),
            ]
            yield from _candidates(every, source, rules, awaited, frozenset())

    return read


def zone_counter(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Return the task from batches of geometries in degrees to counts by UTM zone."""
    for batch in batches:
        shapes = batch.column(entity.GEOMETRY).to_numpy(zero_copy_only=False)
        zones = utm_zones(shapely.from_wkb(shapes), WGS84)
        arrays = [pa.array(zones.keys(), pa.int32()), pa.array(zones.values(), pa.int64())]
        yield pa.record_batch(arrays, schema=ZONES)


def projector(source: str, target: CRS) -> BatchFunction:
    """Return the task from candidates to those that the target CRS can hold, and problems."""

    def place(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            is_entity = pc.is_null(batch.column(entity.PROBLEM_KIND))
            yield batch.filter(pc.invert(is_entity))
            rows = _rows(batch.filter(is_entity), source)
            clean, problems = storable(project(rows, WGS84, target), target)
            yield _entity_rows(clean, {})
            yield _problem_rows(problems)

    return place


def other_peids(source: str, attempt: int) -> BatchFunction:
    """Return the task that gives segments another peid if an older way has it, and reports it."""

    def choose(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = _rows(batch, source)
            problems, seeds = [], {}
            for position, seed in enumerate(batch.column(SEED).to_pylist()):
                locator = rows.locator(position)
                if seed is None:
                    raise SourceError(f"{source}: {locator} is twice in it; use 'osmium sort'")
                peid = seeded_peid(tuple(seed), attempt)
                rows.peids[position], seeds[peid] = peid, tuple(seed)
                rows.keys[position] = segment_key(seed[0], peid)
                reason = f"its hash is that of another segment; it got its {attempt + 1}. choice"
                kind = ProblemKind.PEID_COLLISION
                problems.append(Problem(kind, True, peid, source, locator, reason))  # noqa: FBT003
            yield _entity_rows(rows, seeds)
            yield _problem_rows(problems)

    return choose


def _candidates(
    lines: Sequence[str],
    source: str,
    rules: Rules,
    awaited: AwaitedAreas,
    junctions: frozenset[int],
) -> Iterator[pa.RecordBatch]:
    written = ("\n".join(lines) + "\n").encode()
    file = osmium.io.FileBuffer(written, "opl")
    extract = read_elements(file, Extract(source), rules, awaited)
    found = ExtractRows(extract, junctions)
    rows, problems = readable(found.candidates())
    yield _entity_rows(rows, found.seeds)
    yield _problem_rows([*extract.problems, *found.problems, *problems])


def _rows(batch: pa.RecordBatch, source: str) -> Candidates:
    """Return the entities to be of a batch of candidates."""
    return Candidates(
        source=source,
        locator=batch.column(entity.LOCATOR).to_pylist().__getitem__,
        ordinals=np.arange(batch.num_rows),
        peids=batch.column(entity.PEID).to_numpy().copy(),
        categories=objects(batch.column(entity.CATEGORIES).to_pylist()),
        names=objects(batch.column(entity.NAME).to_pylist()),
        geometries=shapely.from_wkb(batch.column(entity.GEOMETRY).to_numpy(zero_copy_only=False)),
        keys=objects(batch.column(entity.KEY).to_pylist()),
    )


def _entity_rows(rows: Candidates, seeds: Mapping[int, SegmentSeed]) -> pa.RecordBatch:
    columns = dict(
        zip(version_tables.UNVERSIONED_ENTITIES.names, rows.as_table().columns, strict=True)
    )
    columns[entity.LOCATOR] = [rows.locator(ordinal) for ordinal in rows.ordinals.tolist()]
    columns[SEED] = [seeds.get(peid) for peid in rows.peids.tolist()]
    return _padded(columns, len(rows))


def _problem_rows(problems: Sequence[Problem]) -> pa.RecordBatch:
    table = problem_table(problems)
    return _padded(dict(zip(table.column_names, table.columns, strict=True)), len(problems))


def _padded(columns: Mapping[str, Any], rows: int) -> pa.RecordBatch:
    arrays = []
    for field in CANDIDATES:
        column = columns.get(field.name, [None] * rows)
        is_table = isinstance(column, pa.ChunkedArray)
        arrays.append(column.combine_chunks() if is_table else pa.array(column, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=CANDIDATES)
