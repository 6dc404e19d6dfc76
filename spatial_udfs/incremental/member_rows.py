"""Rows (set, stage, entity) of many neighborhoods as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spatial_udfs.entity_table import Int64s

Int32s: TypeAlias = NDArray[np.int32]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class MemberRows:
    """Rows by set, and within a set by stage and peid; ``shown``: the stage is visible."""

    sets: Int32s
    stages: Int32s
    shown: Bools
    peids: Int64s

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.peids)

    def where(self, chosen: Bools) -> MemberRows:
        """Some of the rows."""
        return MemberRows(
            self.sets[chosen], self.stages[chosen], self.shown[chosen], self.peids[chosen]
        )

    def visible(self) -> MemberRows:
        """The rows of visible stages."""
        return self if self.shown.all() else self.where(self.shown)

    def numbered(self, numbers: Int64s) -> MemberRows:
        """The rows with other set numbers: ``numbers[old]`` is the new one."""
        return MemberRows(numbers[self.sets].astype(np.int32), self.stages, self.shown, self.peids)

    @classmethod
    def joined(cls, parts: Sequence[MemberRows]) -> MemberRows:
        """All rows of some parts, in order; no set stands in two of them."""
        if not parts:
            return NO_ROWS
        sets = np.concatenate([part.sets for part in parts])
        order = np.argsort(sets, kind="stable")
        return cls(
            sets[order],
            np.concatenate([part.stages for part in parts])[order],
            np.concatenate([part.shown for part in parts])[order],
            np.concatenate([part.peids for part in parts])[order],
        )


NO_ROWS: Final = MemberRows(
    np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.bool_), np.empty(0, np.int64)
)
