"""The columns of a world version that a search needs, read as late as possible."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from schemas import entity
from world.search.categories import CodedCategories
from world.search.folding import folded_column
from world.versions.store import WorldStore
from world.versions.version_tables import VersionFacts

TEXT_COLUMNS: Final = (entity.PEID, entity.KEY, entity.NAME, entity.CATEGORIES)


class SearchedWorld:
    """One world version, opened for searching."""

    def __init__(self, store: WorldStore, facts: VersionFacts) -> None:
        """Read nothing yet but keep where to read."""
        self.facts: Final = facts
        self._store = store

    @classmethod
    def open(cls, world: str, version: int | None = None) -> SearchedWorld:
        """Open one version of a world; the newest if none is given."""
        store = WorldStore(world)
        return cls(store, store.facts_of(version))

    def __len__(self) -> int:
        """Return the number of entities."""
        return len(self.peids)

    @cached_property
    def rows(self) -> pa.Table:
        """Peids, keys, names and categories."""
        return self._store.entities(self.facts.version, TEXT_COLUMNS)

    @cached_property
    def peids(self) -> NDArray[np.int64]:
        """The peid of each row."""
        peids: NDArray[np.int64] = self.rows.column(entity.PEID).to_numpy()
        return peids

    @cached_property
    def categories(self) -> CodedCategories:
        """The categories of each row."""
        return CodedCategories.of(self.rows.column(entity.CATEGORIES))

    @cached_property
    def has_keys(self) -> bool:
        """Whether any entity has a key that is more than its decimal peid."""
        own = pc.not_equal(self.rows.column(entity.KEY), pa.array(self.peids).cast(pa.string()))
        return bool(pc.any(own, skip_nulls=True).as_py())

    @cached_property
    def folded_names(self) -> pa.StringArray:
        """The name of each row, folded; "" where there is none."""
        return folded_column(self.rows.column(entity.NAME))

    @cached_property
    def folded_keys(self) -> pa.StringArray:
        """The key of each row, folded; "" where there is none."""
        return folded_column(self.rows.column(entity.KEY))

    def prepare(self) -> None:
        """Read and fold everything now, so that the first search need not."""
        _ = self.rows, self.categories, self.folded_names, self.has_keys and self.folded_keys

    def geometries(self) -> pa.ChunkedArray:
        """Return the WKB of each row. It is not kept: it is larger than everything else."""
        return self._store.entities(self.facts.version, [entity.GEOMETRY]).column(0)
