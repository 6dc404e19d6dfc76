"""What is different between two world versions, as those see it who resolve again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spatial_udfs.entity_table import Int64s


@dataclass(frozen=True, slots=True, eq=False)
class WorldChanges:
    """Peids, ascending. An entity can be both moved and recategorised."""

    added: Int64s
    removed: Int64s
    moved: Int64s
    recategorised: Int64s
    # A name decides about no neighborhood; it is counted for people.
    renamed: Int64s
    # Where those that moved or were removed had been: peids, ascending, and WKB.
    left: Int64s
    left_places: pa.ChunkedArray

    def touched(self) -> Int64s:
        """Return every entity that may count differently for a neighborhood."""
        parts = (self.added, self.removed, self.moved, self.recategorised)
        return np.unique(np.concatenate(parts))

    def arrived(self) -> Int64s:
        """Return those of them that the new version has."""
        return np.unique(np.concatenate((self.added, self.moved, self.recategorised)))

    def counts(self) -> dict[str, int]:
        """Return how many of each kind, by name."""
        return {
            "added": len(self.added),
            "removed": len(self.removed),
            "moved": len(self.moved),
            "recategorised": len(self.recategorised),
            "renamed": len(self.renamed),
        }
