"""Membership rows, made of members and the subscriptions that show them.

The rows have a fixed order, so several tasks can each write a range of them. A set of very many
subscriptions is divided like every other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from spatial_udfs.entity_table import Int32s, Int64s
from spatial_udfs.position_sets import spread_out

# Arrays of some megabytes are used again by the allocator; larger ones cost new pages each time.
ROWS_IN_BATCH: Final = 250_000


class ShownNodes(NamedTuple):
    """Row i: the subscriptions ``sub_ids[starts[i]:starts[i + 1]]`` show a node as a stage.

    Nodes ascend.
    """

    nodes: Int32s
    stages: Int32s
    starts: Int64s
    sub_ids: Int64s

    @classmethod
    def by_node(
        cls, nodes: Int32s, stages: Int32s, first: Int64s, counts: Int64s, sub_ids: Int64s
    ) -> ShownNodes:
        """Return the rows in the order of their nodes, each with its subscriptions."""
        order = np.lexsort((stages, nodes))
        _, rows = spread_out(first[order], counts[order])
        starts = np.concatenate([[0], np.cumsum(counts[order])]).astype(np.int64)
        return cls(nodes[order], stages[order], starts, sub_ids[rows])

    def uses(self, count: int) -> Int64s:
        """Return for each of so many nodes how many subscriptions show it, counted by stage."""
        shows = np.diff(self.starts)
        return np.bincount(self.nodes, weights=shows, minlength=count).astype(np.int64)

    def written_out(
        self, nodes: Int32s, peids: Int64s, first_row: int, last_row: int
    ) -> Iterator[tuple[Int64s, Int64s, Int32s]]:
        """Yield the rows (subId, peid, stage) from one row to another, in batches.

        ``nodes`` and ``peids`` are members, by ascending node.
        """
        first = np.searchsorted(nodes, self.nodes)
        counts = np.searchsorted(nodes, self.nodes, side="right") - first
        shows = np.diff(self.starts)
        ends = np.cumsum(counts * shows)
        begins = ends - counts * shows
        for begin in range(first_row, last_row, ROWS_IN_BATCH):
            end = min(begin + ROWS_IN_BATCH, last_row)
            at = int(np.searchsorted(ends, begin, side="right"))
            to = int(np.searchsorted(ends, end - 1, side="right")) + 1
            some = at + np.flatnonzero(counts[at:to])
            # Each subscription of a row gives a run: all members, or what the batch has of them.
            low = np.maximum(begin - begins[some], 0) // counts[some]
            high = -(-(np.minimum(end, ends[some]) - begins[some]) // counts[some])
            of, subscriber = spread_out(low, high - low)
            rows = some[of]
            starts = begins[rows] + subscriber * counts[rows]
            lengths = np.minimum(starts + counts[rows], end) - np.maximum(starts, begin)
            members = np.arange(begin, end) + np.repeat(first[rows] - starts, lengths)
            yield (
                np.repeat(self.sub_ids[self.starts[rows] + subscriber], lengths),
                peids[members],
                np.repeat(self.stages[rows], lengths),
            )
