"""Members of distinct neighborhoods as arrays: small, as subscriptions share the rows of a set.

Each rebuild saves them beside its record, with all stages. From them the next rebuild finds which
sets a change can affect and which pairs in Redis differ, without reading a membership row.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spatial_udfs.entity_table import Bools, Int32s, Int64s
from spatial_udfs.incremental.member_rows import MemberRows

MEMBERS_FILE: Final = "members.parquet"
SETS_FILE: Final = "sets.parquet"
SUBSCRIPTIONS_FILE: Final = "subscriptions.parquet"
# Raise it whenever a neighborhood can get other members than before on the same world version.
# Results saved by another method are not used.
MEMBER_METHOD: Final = 2
# The allocator reuses arrays of some megabytes; larger ones cost new pages each time.
ROWS_IN_BLOCK: Final = 250_000


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedSets:
    """The result of one rebuild. ``resolved[i]`` is False if no reference of set i exists.

    ``whole`` tells whether rows of invisible stages are included. ``descriptors`` has the text of
    each set's descriptor.
    """

    hashes: tuple[str, ...]
    descriptors: tuple[str, ...]
    resolved: Bools
    rows: MemberRows
    sub_ids: Int64s
    set_of: Int64s
    whole: bool = True

    def membership_count(self) -> int:
        """Return the number of membership rows."""
        shown = np.bincount(self.rows.sets[self.rows.shown], minlength=len(self.hashes))
        return int(shown[self.set_of].sum())

    def memberships(self) -> Iterator[tuple[Int64s, Int64s, Int32s]]:
        """Yield the membership rows (subId, peid, stageNo) in blocks."""
        shown = self.rows.visible()
        for subscriptions, places in written_out(shown.sets, self.set_of):
            yield self.sub_ids[subscriptions], shown.peids[places], shown.stages[places]

    def split(self, parts: int) -> list[ResolvedSets]:
        """Return groups of subscriptions with about equally many memberships, and visible rows."""
        rows = self.rows.visible()
        shown = np.bincount(rows.sets, minlength=len(self.hashes))
        ends = np.cumsum(shown[self.set_of])
        total = int(ends[-1]) if len(ends) else 0
        inner = np.searchsorted(ends, [total * place // parts for place in range(1, parts)])
        bounds = [0, *inner.tolist(), len(self.sub_ids)]
        return [
            replace(
                self, rows=rows, sub_ids=self.sub_ids[first:last], set_of=self.set_of[first:last]
            )
            for first, last in pairwise(bounds)
        ]

    def save(self, folder: Path) -> None:
        """Write the files. The caller records afterwards that they exist."""
        rows = self.rows
        _write(
            folder / MEMBERS_FILE,
            pa.table({"set": rows.sets, "stageNo": rows.stages, "shown": rows.shown,
                      "peid": rows.peids}),
        )  # fmt: skip
        hashes = pa.array(self.hashes, pa.string())
        texts = pa.array(self.descriptors, pa.string())
        whole = pa.array(np.full(len(self.hashes), self.whole))
        method = pa.array(np.full(len(self.hashes), MEMBER_METHOD, np.int32))
        _write(
            folder / SETS_FILE,
            pa.table(
                {"hash": hashes, "descriptor": texts, "resolved": self.resolved, "whole": whole,
                 "method": method}
            ),
        )  # fmt: skip
        _write(folder / SUBSCRIPTIONS_FILE, pa.table({"subId": self.sub_ids, "set": self.set_of}))

    @staticmethod
    def remove(folder: Path) -> None:
        """Remove the saved files, if there are any."""
        for name in (MEMBERS_FILE, SETS_FILE, SUBSCRIPTIONS_FILE):
            (folder / name).unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: Path) -> ResolvedSets | None:
        """Return the saved sets; None if a file is missing or another method wrote it."""
        try:
            members, sets, subscriptions = (
                pq.read_table(folder / name)
                for name in (MEMBERS_FILE, SETS_FILE, SUBSCRIPTIONS_FILE)
            )
        except (OSError, pa.ArrowException):
            return None
        if "method" not in sets.column_names:
            return None
        if set(sets.column("method").to_pylist()) - {MEMBER_METHOD}:
            return None
        rows = MemberRows(
            members.column("set").to_numpy(),
            members.column("stageNo").to_numpy(),
            np.asarray(members.column("shown").to_numpy(), np.bool_),
            members.column("peid").to_numpy(),
        )
        return cls(
            hashes=tuple(sets.column("hash").to_pylist()),
            descriptors=tuple(sets.column("descriptor").to_pylist()),
            resolved=np.array(sets.column("resolved").to_numpy(), np.bool_),
            rows=rows,
            sub_ids=subscriptions.column("subId").to_numpy(),
            set_of=subscriptions.column("set").to_numpy(),
            whole=all(sets.column("whole").to_pylist()),
        )


def written_out(sets: NDArray[np.integer], set_of: Int64s) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield every subscription with every row of its set, in blocks of positions in both arrays.

    ``sets`` ascends; ``set_of`` has the set of each subscription. A block is a range of
    subscriptions, of which there are far fewer than rows.
    """
    # Bounds are looked up once for each set, because there are few sets.
    bounds_of = np.searchsorted(sets, np.arange(int(set_of.max(initial=-1)) + 2))
    starts = bounds_of[set_of]
    lengths = bounds_of[set_of + 1] - starts
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    if not total:
        return
    bounds = np.searchsorted(ends, np.arange(0, total, ROWS_IN_BLOCK), side="right")
    for first, last in zip(bounds, [*bounds[1:], len(set_of)], strict=True):
        own = lengths[first:last]
        before = np.cumsum(own) - own
        size = int(own.sum())
        places = np.repeat(starts[first:last] - before, own)
        places += np.arange(size)
        yield np.repeat(np.arange(first, last), own), places


def _write(path: Path, table: pa.Table) -> None:
    """Write a file atomically, and flush it to the disk first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        # There are too many distinct peids for a dictionary.
        names = [name for name in table.column_names if name != "peid"]
        pq.write_table(table, file, compression="lz4", use_dictionary=names)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
