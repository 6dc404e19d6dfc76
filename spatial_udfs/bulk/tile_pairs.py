"""What the executors' Python does with the entities of a tile: their pairs, with kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from schemas.entity import CATEGORIES, GEOMETRY, PEID
from spatial_udfs.bulk.batch_tables import Bools, Int32s
from spatial_udfs.bulk.bucket_parts import NO_PAIRS, EntityColumns, FoundPairs, PairColumns, packed
from spatial_udfs.bulk.category_sets import Vocabulary, set_numbers
from spatial_udfs.bulk.python_workers import spare_idle_work
from spatial_udfs.bulk.sedona_tiles import TILE
from spatial_udfs.bulk.world_tiles import Boxes
from spatial_udfs.entity_table import Int64s, Positions
from spatial_udfs.resolution_limits import UNLIMITED
from spatial_udfs.topology.pair_kinds import PAIRS_OF_SHAPES, Kinds, PairKinds
from spatial_udfs.topology.pair_matrices import PairMatrices
from spatial_udfs.topology.shapes import shapes_of, stored_geometries
from spatial_udfs.topology.stored_kinds import DISJOINT_KINDS, encoded_cells

spare_idle_work()

CHANGED: Final = "changed"  # Boolean: pairs without such an end are not looked for
# Bounds what a tile holds at once, should all that is in it lie in one place.
REFERENCES_PER_STEP: Final = 2_000
# So many pairs in one step make a reference heavy: it covers a good part of a tile.
HEAVY_IN_STEP: Final = 1_000


class TileTask:
    """The task for some tiles: batches of entities in, BucketParts out (PACKED_TYPES)."""

    def __init__(self, tiles: Boxes, vocabulary: Vocabulary, buckets: int, heavy: Int64s) -> None:
        """``heavy`` are references that are heavy whatever is found here."""
        self._tiles = tiles
        self._heavy = heavy
        self._vocabulary = vocabulary
        self._buckets = buckets

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches have TILE, PEID, CATEGORIES, CHANGED and GEOMETRY (WKB), all rows of a tile."""
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return
        table = pa.Table.from_batches(filled)
        kinds = _StoredKinds()
        tile_of_row = table.column(TILE).to_numpy()
        steps: list[FoundPairs] = []
        entities: list[EntityColumns] = []
        for number in np.unique(tile_of_row):
            tile = _TilePairs(
                _rows_of_tile(table, tile_of_row == number),
                self._tiles[number],
                self._vocabulary,
                kinds,
            )
            own = tile.own_entities()
            entities.append(own)
            steps.extend(tile.steps())
            heavy = own.at(np.isin(own.peids, self._heavy))
            steps.append(FoundPairs(NO_PAIRS, np.empty(0, np.bool_), heavy))
        yield packed(steps, EntityColumns.joined(entities), self._buckets)


def _rows_of_tile(table: pa.Table, chosen: Bools) -> pa.Table:
    """Return the chosen rows by ascending peid, the order that makes the matrix of a pair."""
    places = np.flatnonzero(chosen)
    peids = table.column(PEID).to_numpy()[places]
    return table.take(places[np.argsort(peids)])


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
        self._geometries = stored_geometries(rows.column(GEOMETRY).to_numpy(), self._peids)
        self._corners = shapely.bounds(self._geometries)[:, :2]
        self._tree = shapely.STRtree(self._geometries)
        self._tile = tile
        self._kinds = kinds
        self._shapes = shapes_of(self._geometries, self._peids)
        self._matrices = PairMatrices(self._geometries, self._shapes, kinds.numbers)

    def own_entities(self) -> EntityColumns:
        """The entities whose lower left corner is in this tile: each is in one of all tiles."""
        return self._entities(np.flatnonzero(self._is_here(self._corners)))

    def steps(self) -> Iterator[FoundPairs]:
        """All pairs with a changed end."""
        asked = np.flatnonzero(self._changed).astype(np.int32)
        for start in range(0, len(asked), REFERENCES_PER_STEP):
            first, second = self._boxes_meet(asked[start : start + REFERENCES_PER_STEP])
            kinds = self._matrices.kinds(first, second, UNLIMITED)
            # Number 0 is "disjoint".
            met = kinds >= PAIRS_OF_SHAPES
            yield self._step(first[met], second[met], kinds[met])

    def _boxes_meet(self, asked: Positions) -> tuple[Positions, Positions]:
        """Pairs of this tile: each once, and only those that no other tile has."""
        places, second = self._tree.query(self._geometries[asked])
        first = asked[places]
        # Of two changed ends both ask.
        once = (first < second) | ~self._changed[second]
        first, second = first[once], second[once]
        here = self._is_here(np.maximum(self._corners[first], self._corners[second]))
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
        heavy = counts > HEAVY_IN_STEP
        return FoundPairs(pairs, heavy[references], self._entities(np.flatnonzero(heavy)))

    def _entities(self, places: NDArray[np.integer]) -> EntityColumns:
        return EntityColumns(self._peids[places], self._shapes[places], self._category_sets[places])
