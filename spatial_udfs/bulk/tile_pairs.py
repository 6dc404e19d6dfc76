"""The pairs of the entities of a tile, with their kinds; runs on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from schemas.entity import CATEGORIES, GEOMETRY, PEID
from spatial_udfs.bulk.bucket_parts import (
    NO_GEOMETRIES,
    BucketPart,
    EntityColumns,
    FoundPairs,
    PairColumns,
    by_buckets,
)
from spatial_udfs.bulk.category_sets import Vocabulary, set_numbers
from spatial_udfs.bulk.sedona_joins import LARGE, TILE
from spatial_udfs.bulk.world_tiles import Boxes
from spatial_udfs.entity_table import Bools, Int32s, Positions
from spatial_udfs.resolution_limits import UNLIMITED
from spatial_udfs.topology.pair_kinds import (
    DISJOINT_KINDS,
    PAIRS_OF_SHAPES,
    Kinds,
    PairKinds,
    encoded_cells,
)
from spatial_udfs.topology.pair_matrices import PairMatrices
from spatial_udfs.topology.shapes import shapes_of, stored_geometries

CHANGED: Final = "changed"  # Boolean: pairs without such an end are not looked for
# Bounds the memory of a tile in which all entities lie in one place.
REFERENCES_PER_STEP: Final = 2_000
# So many pairs in one step make a reference heavy: it covers a good part of a tile.
HEAVY_IN_STEP: Final = 1_000


class TileTask:
    """The task for some tiles: it takes batches of entities and yields a part for each bucket."""

    def __init__(self, tiles: Boxes, vocabulary: Vocabulary, buckets: int) -> None:
        self._tiles = tiles
        self._vocabulary = vocabulary
        self._buckets = buckets

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, BucketPart]]:
        """Yield the parts of these entities, by bucket.

        The columns are TILE, PEID, CATEGORIES, CHANGED, LARGE and GEOMETRY. The batches have all
        rows of a tile.
        """
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return
        table = pa.Table.from_batches(filled)
        kinds = _StoredKinds()
        tile_of_row = table.column(TILE).to_numpy()
        steps: list[FoundPairs] = []
        entities: list[EntityColumns] = []
        geometries: list[pa.Array] = [NO_GEOMETRIES]
        for number in np.unique(tile_of_row):
            rows = _rows_of_tile(table, tile_of_row == number)
            tile = _TilePairs(rows, self._tiles[number], self._vocabulary, kinds)
            own = tile.own_places()
            entities.append(tile.entities(own))
            written = rows.column(GEOMETRY).combine_chunks()
            geometries.append(written.take(pa.array(own)).cast(pa.binary()))
            steps.extend(tile.steps())
        yield from by_buckets(
            steps, EntityColumns.joined(entities), pa.concat_arrays(geometries), self._buckets
        )


def _rows_of_tile(table: pa.Table, chosen: Bools) -> pa.Table:
    """Return the chosen rows by ascending peid, the order that makes the matrix of a pair.

    A large entity comes once for each of its pieces that meet the tile.
    """
    places = np.flatnonzero(chosen)
    _, first = np.unique(table.column(PEID).to_numpy()[places], return_index=True)
    return table.take(places[first])


class _StoredKinds:
    """The kinds of a task's pairs, and for each the number that means the same everywhere."""

    def __init__(self) -> None:
        self.numbers = PairKinds()
        self._stored = np.array(DISJOINT_KINDS, np.int32)

    def of(self, kinds: Kinds) -> Int32s:
        if len(self._stored) < self.numbers.count() * PAIRS_OF_SHAPES:
            cells = [encoded_cells(matrix) for matrix in self.numbers.matrices()]
            by_shapes = np.add.outer(np.array(cells, np.int32), np.arange(PAIRS_OF_SHAPES))
            self._stored = np.concatenate([DISJOINT_KINDS, by_shapes.ravel()]).astype(np.int32)
        return self._stored[kinds]


class _TilePairs:
    """The pairs of one tile."""

    def __init__(
        self,
        rows: pa.Table,
        tile: NDArray[np.float64],
        vocabulary: Vocabulary,
        kinds: _StoredKinds,
    ) -> None:
        """Read each geometry once for all its pairs. The rows ascend by peid."""
        self._peids = rows.column(PEID).to_numpy()
        self._category_sets = set_numbers(rows.column(CATEGORIES), vocabulary)
        self._changed: Bools = rows.column(CHANGED).to_numpy()
        self._large: Bools = rows.column(LARGE).to_numpy()
        self._geometries = stored_geometries(rows.column(GEOMETRY).to_numpy(), self._peids)
        self._corners = shapely.bounds(self._geometries)[:, :2]
        self._tree = shapely.STRtree(self._geometries)
        self._tile = tile
        self._kinds = kinds
        self._shapes = shapes_of(self._geometries, self._peids)
        self._matrices = PairMatrices(self._geometries, self._shapes, kinds.numbers)

    def own_places(self) -> Positions:
        """Return the entities whose lower left corner is in this tile; each has one such tile."""
        return np.flatnonzero(self._is_here(self._corners)).astype(np.int32)

    def entities(self, places: Positions) -> EntityColumns:
        """Return peids, shapes and category sets of these entities."""
        return EntityColumns(self._peids[places], self._shapes[places], self._category_sets[places])

    def steps(self) -> Iterator[FoundPairs]:
        """Yield all pairs with a changed end."""
        asked = np.flatnonzero(self._changed).astype(np.int32)
        for start in range(0, len(asked), REFERENCES_PER_STEP):
            first, second = self._boxes_meet(asked[start : start + REFERENCES_PER_STEP])
            kinds = self._matrices.kinds(first, second, UNLIMITED)
            # Number 0 is "disjoint".
            met = kinds >= PAIRS_OF_SHAPES
            yield self._step(first[met], second[met], kinds[met])

    def _boxes_meet(self, asked: Positions) -> tuple[Positions, Positions]:
        """Return pairs of this tile: each once, and only those that no other tile has.

        A large entity is not in every tile that its box meets, so a pair with one may be found
        in several tiles.
        """
        places, second = self._tree.query(self._geometries[asked])
        first = asked[places]
        # Of two changed ends both ask.
        once = (first < second) | ~self._changed[second]
        first, second = first[once], second[once]
        here = self._is_here(np.maximum(self._corners[first], self._corners[second]))
        here |= self._large[first] | self._large[second]
        return first[here], second[here]

    def _is_here(self, corners: NDArray[np.float64]) -> Bools:
        within = (self._tile[:2] <= corners) & (corners < self._tile[2:])
        return np.asarray(within.all(axis=1))

    def _step(self, first: Positions, second: Positions, kinds: Kinds) -> FoundPairs:
        references = np.concatenate([first, second])
        entities = np.concatenate([second, first])
        both_ways = np.concatenate([kinds, self._kinds.numbers.transposed(kinds)])
        counts = np.bincount(references, minlength=len(self._peids))
        pairs = PairColumns(
            self._peids[references],
            self._peids[entities],
            self._kinds.of(both_ways),
            self._category_sets[entities],
        )
        # A pair with a large end may be found in several tiles: where it goes must not depend on
        # how many pairs there are in one of them.
        either = self._large[references] | self._large[entities]
        heavy = counts > HEAVY_IN_STEP
        return FoundPairs(pairs, np.where(either, self._large[references], heavy[references]))
