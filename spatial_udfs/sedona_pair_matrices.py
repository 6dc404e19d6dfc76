"""What the executors' Python does with the entities of a tile: their pairs, with kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from schemas.entity import PEID
from schemas.related import CATEGORY_SET, ENTITY, PAIR_KIND, REFERENCE
from spatial_udfs.entity_table import Geometries, Positions
from spatial_udfs.pair_kinds import PAIRS_OF_SHAPES, Bools, Kinds, PairKinds
from spatial_udfs.pair_matrices import PairMatrices
from spatial_udfs.resolution_limits import UNLIMITED
from spatial_udfs.sedona_entities import SHAPE
from spatial_udfs.sedona_pair_kinds import DISJOINT_KINDS, encoded_cells
from spatial_udfs.sedona_salting import CROWDED, HEAVY_PAIRS
from spatial_udfs.sedona_tiles import TILE
from spatial_udfs.sedona_workers import spare_idle_work
from spatial_udfs.world_tiles import Boxes

spare_idle_work()

CHANGED: Final = "changed"  # Boolean: pairs without such an end are not looked for
WKB: Final = "wkb"
DIRECTED_PAIR_TYPES: Final = (
    f"{REFERENCE} bigint, {ENTITY} bigint, {PAIR_KIND} int, {CATEGORY_SET} int, {CROWDED} boolean"
)
_NAMES: Final = (REFERENCE, ENTITY, PAIR_KIND, CATEGORY_SET, CROWDED)
# Bounds what a tile holds at once, should all that is in it lie in one place.
REFERENCES_PER_STEP: Final = 2_000


def pairs_of_tiles(batches: Iterable[pa.RecordBatch], tiles: Boxes) -> Iterator[pa.RecordBatch]:
    """Each pair as two rows (DIRECTED_PAIR_TYPES), in the tile to which it belongs.

    Batches have TILE, PEID, SHAPE, CATEGORY_SET, CHANGED and WKB; all rows of a tile come to
    the same call.
    """
    filled = [batch for batch in batches if batch.num_rows]
    if not filled:
        return
    table = pa.Table.from_batches(filled)
    kinds = _StoredKinds()
    crowd = HEAVY_PAIRS // len(tiles)
    tile_of_row = table.column(TILE).to_numpy()
    for number in np.unique(tile_of_row):
        rows = table.take(np.flatnonzero(tile_of_row == number))
        yield from _TilePairs(rows, tiles[number], crowd, kinds).batches()


class _StoredKinds:
    """The kinds of a task's pairs, and for each the number that means the same everywhere."""

    def __init__(self) -> None:
        self.numbers = PairKinds()
        self._stored = np.array(DISJOINT_KINDS, np.int32)

    def of(self, kinds: Kinds) -> NDArray[np.int32]:
        if len(self._stored) < self.numbers.count() * PAIRS_OF_SHAPES:
            cells = [encoded_cells(matrix) for matrix in self.numbers.matrices()]
            by_shapes = np.add.outer(np.array(cells, np.int32), np.arange(PAIRS_OF_SHAPES))
            self._stored = np.concatenate([DISJOINT_KINDS, by_shapes.ravel()]).astype(np.int32)
        return self._stored[kinds]


class _TilePairs:
    """The pairs of one tile."""

    def __init__(
        self, rows: pa.Table, tile: NDArray[np.float64], crowd: int, kinds: _StoredKinds
    ) -> None:
        """Read each geometry once for all its pairs."""
        self._peids = rows.column(PEID).to_numpy()
        self._category_sets = rows.column(CATEGORY_SET).to_numpy()
        self._changed: Bools = rows.column(CHANGED).to_numpy()
        self._geometries: Geometries = shapely.from_wkb(rows.column(WKB).to_numpy())
        self._corners = shapely.bounds(self._geometries)[:, :2]
        self._tree = shapely.STRtree(self._geometries)
        self._tile = tile
        self._crowd = crowd
        self._kinds = kinds
        shapes = rows.column(SHAPE).to_numpy().astype(np.uint8)
        self._matrices = PairMatrices(self._geometries, shapes, kinds.numbers)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows of DIRECTED_PAIR_TYPES."""
        asked = np.flatnonzero(self._changed).astype(np.int32)
        for start in range(0, len(asked), REFERENCES_PER_STEP):
            first, second = self._boxes_meet(asked[start : start + REFERENCES_PER_STEP])
            kinds = self._matrices.kinds(first, second, UNLIMITED)
            # Number 0 is "disjoint".
            met = kinds >= PAIRS_OF_SHAPES
            yield self._rows(first[met], second[met], kinds[met])

    def _boxes_meet(self, asked: Positions) -> tuple[Positions, Positions]:
        """Pairs of this tile: each once, and only those that no other tile has."""
        places, second = self._tree.query(self._geometries[asked])
        first = asked[places]
        # Of two changed ends both ask.
        once = (first < second) | ~self._changed[second]
        first, second = first[once], second[once]
        corner = np.maximum(self._corners[first], self._corners[second])
        here = ((self._tile[:2] <= corner) & (corner < self._tile[2:])).all(axis=1)
        return first[here], second[here]

    def _rows(self, first: Positions, second: Positions, kinds: Kinds) -> pa.RecordBatch:
        references = np.concatenate([first, second])
        entities = np.concatenate([second, first])
        both_ways = np.concatenate([kinds, self._kinds.numbers.transposed(kinds)])
        return pa.RecordBatch.from_arrays(
            [
                pa.array(self._peids[references]),
                pa.array(self._peids[entities]),
                pa.array(self._kinds.of(both_ways)),
                pa.array(self._category_sets[entities]),
                pa.array(np.bincount(references)[references] > self._crowd),
            ],
            names=_NAMES,
        )
