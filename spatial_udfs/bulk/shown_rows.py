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
        for begin in range(first_row, last_row, ROWS_IN_BATCH):
            places = np.arange(begin, min(begin + ROWS_IN_BATCH, last_row))
            at = int(np.searchsorted(ends, begin, side="right"))
            to = int(np.searchsorted(ends, places[-1], side="right")) + 1
            lengths = np.diff(np.clip(ends[at:to], begin, places[-1] + 1), prepend=begin)
            rows = np.repeat(np.arange(at, to), lengths)
            within = places - (ends[rows] - counts[rows] * shows[rows])
            subscriber, member = np.divmod(within, counts[rows])
            yield (
                self.sub_ids[self.starts[rows] + subscriber],
                peids[first[rows] + member],
                self.stages[rows],
            )
