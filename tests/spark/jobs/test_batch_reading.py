"""Subscriptions from where they are to nodes: every way in, by one task and by many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from jobs.pipeline import exchange
from jobs.pipeline.exchange import Tasks
from jobs.pipeline.session import parallelism_of
from jobs.pipeline.subscriptions import graph_slices
from jobs.pipeline.subscriptions import snapshot as snapshots
from jobs.pipeline.subscriptions.graph_slices import Graph, slice_count, to_graph
from jobs.pipeline.subscriptions.snapshot import (
    Snapshot,
    Subscriptions,
    open_subscriptions,
    snapshot,
)
from jobs.pipeline.table_places import lake_table
from schemas.errors import SourceError, SpapsError
from spatial_udfs.batch.descriptor_parts import descriptor_parts
from spatial_udfs.batch.graph_tables import graph_tables, node_ids
from spatial_udfs.batch.stage_graph import graph_of
from spatial_udfs.batch.subscription_parts import SubscriptionPart, part_of_texts
from world.lake.scratch import Scratch, new_scratch
from world.subscriptions import line_ranges

pytestmark = pytest.mark.spark

Shown = set[tuple[int, int, int]]


def text(ref: int, stages: int = 1) -> str:
    more = ',{"refStages":"Prev","cats":["road/#"],"cond":"T"}' * (stages - 1)
    return f'{{"refs":[{ref}],"stages":[{{"cats":["road/#"],"cond":"C"}}{more}]}}'


TEXTS = [text(1 + number % 7, 1 + number % 3) for number in range(200)]


def line(number: int, descriptor: str) -> str:
    return f'{{"subId": {number}, "descriptor": {descriptor}}}\n'


@dataclass
class Read:
    """What tasks left of a batch, with the files."""

    snapshot: Snapshot
    graph: Graph
    scratch: Scratch

    def tables(self) -> list[Any]:
        return [self.scratch.get(facts.graph) for facts in self.graph.slices]

    def descriptors(self) -> list[Any]:
        return [part for facts in self.graph.slices for part in self.scratch.get(facts.descriptors)]


def read_batch(spark: Any, folder: Path, subscriptions: Subscriptions) -> Read:
    tasks = Tasks(spark, parallelism_of(spark))
    scratch = new_scratch(lake_table(spark, str(folder / "read")), "29990101")
    read = snapshot(tasks, scratch, subscriptions)
    slices = slice_count(read.texts, 1, tasks.parallelism)
    return Read(read, to_graph(tasks, scratch, read, slices), scratch)


def shown(read: Read) -> Shown:
    """Rows (node, stage, subId), each once."""
    found = []
    for facts, tables in zip(read.graph.slices, read.tables(), strict=True):
        rows, ids = read.scratch.get(facts.shown), node_ids(tables)
        found += [
            (int(ids[rows.nodes[at]]), int(rows.stages[at]), sub_id)
            for at in range(len(rows.nodes))
            for sub_id in rows.sub_ids[rows.starts[at] : rows.starts[at + 1]].tolist()
        ]
    assert len(set(found)) == len(found)
    return set(found)


def expected(texts: dict[int, str], salt: int = 0) -> Shown:
    return {
        (node, stage, sub_id)
        for sub_id, descriptor in texts.items()
        for node, stage in graph_of(descriptor, salt)[5]
    }


def bad(read: Read) -> dict[str, str]:
    rows = [row for part in read.descriptors() for row in part.bad]
    assert len(rows) == read.graph.bad
    places = read.snapshot.places
    return {places.where(row.place, row.sub_id): row.reason for row in rows}


@pytest.fixture
def by_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small inputs be read as large ones are."""
    monkeypatch.setattr(line_ranges, "LEAST_BYTES", 1_000)
    monkeypatch.setattr(line_ranges, "MOST_BYTES", 4_000)
    monkeypatch.setattr(snapshots, "FEW_SUBSCRIPTIONS", 0)
    monkeypatch.setattr(graph_slices, "LEAST_TEXTS_IN_SLICE", 4)
    monkeypatch.setattr(exchange, "ROWS_IN_TASK", 100)


@pytest.fixture(params=["one task", "many tasks"])
def layout(request: pytest.FixtureRequest) -> str:
    if request.param == "many tasks":
        request.getfixturevalue("by_many")
    return str(request.param)


def test_nodes_and_who_shows_them(spark: Any, tmp_path: Path, layout: str) -> None:
    texts = dict(enumerate(TEXTS, start=1))
    path = tmp_path / "s.jsonl"
    path.write_text("".join(line(number, each) for number, each in texts.items()))
    subscriptions = open_subscriptions(spark, str(path))
    assert (len(subscriptions.shares(2)) > 1) == (layout == "many tasks")
    read = read_batch(spark, tmp_path, subscriptions)
    assert shown(read) == expected(texts)
    assert bad(read) == {}
    graphs = [graph_of(each) for each in set(TEXTS)]
    nodes = {node[:2] for graph in graphs for node in graph[4]}
    tables = read.tables()
    assert (len(tables) > 1) == (layout == "many tasks")
    found = [
        node
        for each in tables
        for node in zip(*(each.nodes.column(name).to_pylist() for name in ("node", "proof")),
                        strict=True)
    ]  # fmt: skip
    assert sorted(nodes) == sorted(found), "a node is in one slice"
    assert len({ref for each in tables for ref in each.references["reference"].to_pylist()}) == 7
    graph = read.graph
    assert (graph.subscriptions, graph.descriptors, graph.remarks) == (200, len(graphs), 0)


@pytest.mark.usefixtures("layout")
def test_the_first_of_a_number_counts_and_bad_lines_have_their_places(
    spark: Any, tmp_path: Path
) -> None:
    texts = {number: TEXTS[number] for number in range(100, 50, -1)}
    lines = "".join(line(number, each) for number, each in texts.items())
    (tmp_path / "a.jsonl").write_text(f"{{no\n\n{lines}{line(70, text(99))}")
    (tmp_path / "b.jsonl").write_text(line(60, text(98)) + line(7, '{"refs": []}') + line(8, "{}"))
    (tmp_path / "_SUCCESS").write_text("")
    read = read_batch(spark, tmp_path, open_subscriptions(spark, str(tmp_path)))
    assert shown(read) == expected(texts)
    found = bad(read)
    assert "not JSON" in found.pop("a.jsonl line 1")
    assert found == {
        "a.jsonl line 53": "subId 70 came before",
        "b.jsonl line 1": "subId 60 came before",
    }
    assert (read.graph.subscriptions, read.graph.remarks) == (52, 2)


@pytest.mark.usefixtures("by_many")
def test_what_one_task_reads_in_parts_is_read_in_the_same_way(spark: Any, tmp_path: Path) -> None:
    texts = dict(enumerate(TEXTS))
    numbers = np.array(list(texts), np.int64)

    def read(_: int) -> Iterator[SubscriptionPart]:
        for at in range(0, len(numbers), 30):
            yield part_of_texts(numbers[at : at + 30], pa.array(TEXTS[at : at + 30], pa.string()))

    given = Subscriptions("a registry", lambda _: [0], read, numbers_differ=True)
    assert shown(read_batch(spark, tmp_path, given)) == expected(texts)


def test_nothing_is_no_error(spark: Any, tmp_path: Path) -> None:
    read = read_batch(spark, tmp_path, open_subscriptions(spark, str(tmp_path)))
    assert (read.graph.subscriptions, read.graph.bad, read.graph.slices) == (0, 0, ())
    assert shown(read) == set()


@pytest.mark.parametrize("path", ["/no-such-subscriptions.jsonl", "/no-such/some.jsonl"])
def test_a_name_that_nothing_has_is_said_in_words(spark: Any, path: str) -> None:
    with pytest.raises(SourceError, match=f"^no subscriptions at {path}: nothing has that name$"):
        open_subscriptions(spark, path)


def write_table(path: str, only_for_spark: Callable[[], None] | None) -> None:
    """Rows in several files, the oldest from before descriptors had their column."""
    number = pa.field("subId", pa.int32())
    write_deltalake(path, pa.table({"subId": pa.array([90], pa.int32())}, pa.schema([number])))
    rows: list[list[tuple[int | None, str]]]
    rows = [[(1, text(2)), (2, text(2)), (1, text(1))], [(1, text(3)), (-7, text(1)), (None, "")]]
    for part in rows:
        table = pa.table(
            {
                "subId": pa.array([number for number, _ in part], pa.int32()),
                "descriptor": [each for _, each in part],
                "since": [2024] * len(part),
            }
        )
        write_deltalake(path, table, mode="append", schema_mode="merge")
    if only_for_spark is not None:
        only_for_spark()


@pytest.mark.parametrize("reader", ["tasks", "spark"])
@pytest.mark.usefixtures("layout")
def test_a_table_of_subscriptions(spark: Any, tmp_path: Path, reader: str) -> None:
    path = str(tmp_path / "table")

    def rename_columns() -> None:
        spark.sql(
            f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
        )
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN since TO year")

    write_table(path, rename_columns if reader == "spark" else None)
    subscriptions = open_subscriptions(spark, path)
    read = read_batch(spark, tmp_path, subscriptions)
    # A table has no order: the first text counts.
    assert shown(read) == expected({1: text(1), 2: text(2)})
    unusable = "the row has no subId of 0 .. 2^63-1, or no descriptor"
    assert bad(read) | {"subId 1": ""} == {
        "subId 1": "",
        "subId -7": unusable,
        "subId null": unusable,
        "subId 90": unusable,
    }
    assert read.graph.bad == 5


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({}, "no subscriptions at .*absent.jsonl"),
        ({"s.jsonl.gz": b"no gzip"}, "cannot be read"),
        ({"s.jsonl.snappy": b""}, "snappy is packed in a way"),
    ],
)
def test_what_cannot_be_read_is_said(
    spark: Any, tmp_path: Path, content: dict[str, bytes], reason: str
) -> None:
    for name, each in content.items():
        (tmp_path / name).write_bytes(each)
    path = tmp_path if content else tmp_path / "absent.jsonl"
    with pytest.raises(SourceError, match=reason):
        read_batch(spark, tmp_path, open_subscriptions(spark, str(path)))


def test_a_pattern_stands_for_its_files(spark: Any, tmp_path: Path) -> None:
    for number, name in enumerate(("a1.jsonl", "a2.jsonl", "b.jsonl")):
        (tmp_path / name).write_text(line(number, text(number)))
    read = read_batch(spark, tmp_path, open_subscriptions(spark, str(tmp_path / "a*.jsonl")))
    assert shown(read) == expected({0: text(0), 1: text(1)})


def test_nodes_that_share_a_number_get_other_numbers(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = dict(enumerate(TEXTS))
    path = tmp_path / "s.jsonl"
    path.write_text("".join(line(number, each) for number, each in texts.items()))
    slices = graph_slices._slices
    clashes = [True, False]

    def with_clash(*arguments: Any) -> Any:
        clash = clashes.pop(0)
        return [facts._replace(clash=clash) for facts in slices(*arguments)]

    monkeypatch.setattr(graph_slices, "_slices", with_clash)
    read = read_batch(spark, tmp_path, open_subscriptions(spark, str(path)))
    assert shown(read) == expected(texts, salt=1) != expected(texts)
    clashes = [True] * 3
    with pytest.raises(SpapsError, match="cannot be told apart"):
        read_batch(spark, tmp_path, open_subscriptions(spark, str(path)))


def test_two_nodes_of_one_number_are_a_clash() -> None:
    parts = descriptor_parts(part_of_texts(np.arange(2), pa.array(TEXTS[:2])), 0, 1)
    [(_, part)] = parts
    graph = part.graph
    assert not graph_tables(graph).clash
    place = graph.schema.get_field_index("base")
    bases = [{**row, "proof": row["proof"] + 1} for row in graph.column(place).to_pylist()]
    other = pa.array(bases, graph.schema.field(place).type)
    assert graph_tables(pa.concat_tables([graph, graph.set_column(place, "base", other)])).clash


def test_subscriptions_are_read_once(spark: Any, tmp_path: Path) -> None:
    """What a task does again comes from the snapshot, not from the source."""
    path = tmp_path / "s.jsonl"
    path.write_text("".join(line(number, each) for number, each in enumerate(TEXTS)))
    tasks = Tasks(spark, parallelism_of(spark))
    scratch = new_scratch(lake_table(spark, str(tmp_path / "read")), "29990101")
    read = snapshot(tasks, scratch, open_subscriptions(spark, str(path)))
    path.write_text(line(1, TEXTS[0]))
    graph = to_graph(tasks, scratch, read, 1)
    assert shown(Read(read, graph, scratch)) == expected(dict(enumerate(TEXTS)))
