"""What the executors' Python does with the pairs that Sedona found: their kinds, both ways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray

from schemas.entity import GEOMETRY, PEID
from schemas.related import CATEGORY_SET, ENTITY, PAIR_KIND, REFERENCE
from spatial_udfs.pair_kinds import PAIRS_OF_SHAPES, Kinds, PairKinds
from spatial_udfs.pair_matrices import INNER_MATRICES, PairMatrices
from spatial_udfs.resolution_limits import UNLIMITED
from spatial_udfs.sedona_pair_kinds import DISJOINT_KINDS, encoded_cells
from spatial_udfs.shapes import SHAPE_COUNT

# Both ends of a pair, the larger one first.
FIRST: Final = "first_"
SECOND: Final = "second_"
DIRECTED_PAIR_TYPES: Final = (
    f"{REFERENCE} bigint, {ENTITY} bigint, {PAIR_KIND} int, {CATEGORY_SET} int"
)
_NAMES: Final = (REFERENCE, ENTITY, PAIR_KIND, CATEGORY_SET)
_SHAPE: Final = "shape"

Ints = NDArray[np.int64]


def directed_pairs(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Each pair as two rows (DIRECTED_PAIR_TYPES).

    Batches have PEID, shape, CATEGORY_SET and GEOMETRY (WKB) of both ends; both geometries are
    null where the second is known to lie in the interior of the first.
    """
    numbers = PairKinds()
    stored = _stored_kinds(numbers)
    for batch in batches:
        if batch.num_rows == 0:
            continue
        kinds = _kinds(batch, numbers)
        if len(stored) < numbers.count() * PAIRS_OF_SHAPES:
            stored = _stored_kinds(numbers)
        both_ways = np.concatenate([kinds, numbers.transposed(kinds)])
        yield pa.RecordBatch.from_arrays(
            [
                _stacked(batch, FIRST + PEID, SECOND + PEID),
                _stacked(batch, SECOND + PEID, FIRST + PEID),
                pa.array(stored[both_ways]),
                _stacked(batch, SECOND + CATEGORY_SET, FIRST + CATEGORY_SET),
            ],
            names=_NAMES,
        )


def _kinds(batch: pa.RecordBatch, numbers: PairKinds) -> Kinds:
    firsts = batch.column(FIRST + _SHAPE).to_numpy().astype(np.uint8)
    seconds = batch.column(SECOND + _SHAPE).to_numpy().astype(np.uint8)
    pairs = firsts * np.uint8(SHAPE_COUNT) + seconds
    kinds = numbers.of(INNER_MATRICES[seconds], pairs)
    asked = pc.is_valid(batch.column(FIRST + GEOMETRY))
    places = np.flatnonzero(asked.to_numpy(zero_copy_only=False))
    if len(places):
        rest = batch.filter(asked)
        # Each geometry is read once for all pairs that it has in the batch.
        known = _stacked(rest, FIRST + GEOMETRY, SECOND + GEOMETRY).dictionary_encode()
        geometries = shapely.from_wkb(known.dictionary.to_numpy(zero_copy_only=False))
        positions = known.indices.to_numpy().astype(np.int64)
        first, second = positions[: len(places)], positions[len(places) :]
        shapes = np.empty(len(geometries), np.uint8)
        shapes[first], shapes[second] = firsts[places], seconds[places]
        matrices = PairMatrices(geometries, shapes, numbers)
        kinds[places] = matrices.kinds(first, second, UNLIMITED)
    return kinds


def _stacked(batch: pa.RecordBatch, upper: str, lower: str) -> pa.Array:
    return pa.concat_arrays([batch.column(upper), batch.column(lower)])


def _stored_kinds(numbers: PairKinds) -> NDArray[np.int32]:
    """For each kind of ``numbers`` the one that the table has, which means the same everywhere."""
    stored = [
        [encoded_cells(matrix) | pair for pair in range(PAIRS_OF_SHAPES)]
        for matrix in numbers.matrices()
    ]
    return np.array([DISJOINT_KINDS, *stored], np.int32).ravel()
