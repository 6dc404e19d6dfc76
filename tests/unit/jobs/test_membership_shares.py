"""Membership rows are cut into equal shares, and each share is written by itself."""

from __future__ import annotations

from statistics import median

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jobs.pipeline.memberships import membership_rows
from jobs.pipeline.memberships.membership_rows import shares_of
from jobs.pipeline.stages.batch_state import CellMembers
from spatial_udfs.batch.shown_rows import ShownNodes


def members_of(rows: list[int]) -> list[CellMembers]:
    return [CellMembers(0, 0, 1, f"file-{at}", "", 1, count) for at, count in enumerate(rows)]


def test_a_node_that_very_many_show_is_divided() -> None:
    most = membership_rows.MOST_ROWS_IN_SHARE
    shares = shares_of(members_of([10, 40 * most, 7, 3]), parallelism=2)
    sizes = [sum(each.last - each.first for each in share) for share in shares]
    assert sum(sizes) == 40 * most + 20
    assert max(sizes) <= most
    assert max(sizes) <= 3 * median(sizes)


@given(st.lists(st.integers(1, 5_000_000), max_size=20), st.integers(1, 16))
def test_each_row_is_in_one_share(rows: list[int], parallelism: int) -> None:
    pieces = [each for share in shares_of(members_of(rows), parallelism) for each in share]
    for at, count in enumerate(rows):
        own = sorted(
            (each.first, each.last) for each in pieces if each.members.path == f"file-{at}"
        )
        assert [first for first, _ in own] == [0, *(last for _, last in own[:-1])]
        assert own[-1][1] == count


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=12),
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3), st.integers(0, 4)), max_size=6),
    st.data(),
)
def test_any_range_of_rows_can_be_written(
    members: list[tuple[int, int]], shown: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """Whatever the cuts are, together they are every member with everyone who shows its node."""
    ordered = sorted(set(members))
    nodes = np.array([node for node, _ in ordered], np.int32)
    peids = np.array([peid for _, peid in ordered], np.int64)
    counts = np.array([count for *_, count in shown], np.int64)
    rows = ShownNodes.by_node(
        np.array([node for node, *_ in shown], np.int32),
        np.array([stage for _, stage, _ in shown], np.int32),
        np.cumsum(counts) - counts,
        counts,
        np.arange(counts.sum()),
    )
    total = int(rows.uses(5)[nodes].sum())
    cuts = sorted(data.draw(st.lists(st.integers(0, total), max_size=3)))
    found = [
        row
        for first, last in zip([0, *cuts], [*cuts, total], strict=True)
        for columns in rows.written_out(nodes, peids, first, last)
        for row in zip(*(column.tolist() for column in columns), strict=True)
    ]
    expected, number = [], 0
    for node, stage, count in shown:
        for sub_id in range(number, number + count):
            expected += [(sub_id, peid, stage) for own, peid in ordered if own == node]
        number += count
    assert sorted(found) == sorted(expected)
