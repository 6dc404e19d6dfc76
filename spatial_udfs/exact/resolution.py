"""What resolving one neighborhood on one world version gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatial_udfs.entity_table import Int64s


@dataclass(frozen=True, slots=True, eq=False)
class Resolution:
    """Members by stage (``stages[0]`` is stage 1), each an ascending array of peids."""

    version: int
    stages: tuple[Int64s, ...]
    visible: tuple[bool, ...]
    missing_refs: tuple[int, ...] = ()

    def rows(self) -> tuple[Int64s, NDArray[np.int32]]:
        """The membership rows (peid, stageNo) of the visible stages, in stage order."""
        shown = [(n, s) for n, s in enumerate(self.stages, start=1) if self.visible[n - 1]]
        peids = np.concatenate([members for _, members in shown])
        numbers = [np.full(len(members), number, np.int32) for number, members in shown]
        return peids, np.concatenate(numbers)

    def peids(self) -> Int64s:
        """The distinct visible peids, ascending: what a broker filters by."""
        return np.unique(self.rows()[0])
