"""The columns of a world version that a search needs, read as late as possible."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from schemas import entity
from schemas.language.categories import CategoryTree
from world.search.folding import folded_column, one_array
from world.search.no_category import no_category
from world.versions.store import WorldStore
from world.versions.version_tables import VersionFacts

TEXT_COLUMNS: Final = (entity.PEID, entity.KEY, entity.NAME, entity.CATEGORIES)
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CodedCategories:
    """The categories of all entities, as codes into ``names``.

    Those of the entity in row i are ``codes[offsets[i]:offsets[i + 1]]``.
    """

    names: tuple[str, ...]
    offsets: NDArray[np.int64]
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> CodedCategories:
        """Return the categories of a column of lists."""
        lists = one_array(column.cast(pa.list_(pa.string())))
        coded = lists.flatten().dictionary_encode()
        lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
        return cls(
            names=tuple(coded.dictionary.to_pylist()),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            codes=coded.indices.to_numpy().astype(np.int32),
        )

    def rows(self) -> NDArray[np.int64]:
        """Return the row of each code."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def mask(self, wanted: NDArray[np.bool_]) -> Mask:
        """Return which entities have a category whose place in ``wanted`` is true."""
        hits = np.concatenate([[0], np.cumsum(wanted[self.codes])])
        mask: Mask = np.diff(hits[self.offsets]) > 0
        return mask

    def matched(self, pattern: str) -> NDArray[np.bool_]:
        """Return which names the pattern selects; SearchError if it selects none."""
        wanted = np.zeros(len(self.names), np.bool_)
        wanted[list(CategoryTree(self.names).codes([pattern]))] = True
        if len(self.names) and not wanted.any():
            raise no_category(pattern, self.names)
        return wanted


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
