"""Blocks of pairs: what goes into rows comes out of them, whole entities at a time."""

from __future__ import annotations

import numpy as np
import pytest

from redis_link.sets.pair_arrays import tally_of
from redis_link.sets.pair_blocks import (
    BLOCK_COLUMNS,
    BLOCK_SCHEMA,
    TaskError,
    block_rows,
    error_row,
    joined_blocks,
    received_blocks,
)
from schemas.errors import SourceError

Pairs = set[tuple[int, int]]


def pairs_of(seed: int, count: int = 2_000) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.integers(0, 300, count) * 10**15, random.integers(0, 2**40, count)


@pytest.mark.parametrize("blocks", [1, 7, 1021])
def test_pairs_arrive_with_their_tally(blocks: int) -> None:
    sent = [pairs_of(1), pairs_of(2), (np.empty(0, np.int64), np.empty(0, np.int64))]
    batches = [block_rows(peids, sub_ids, blocks) for peids, sub_ids in sent]
    assert all(batch.schema == BLOCK_SCHEMA for batch in batches)
    received, error = received_blocks(batches)
    assert error is None
    expected = {
        pair for part in sent for pair in zip(*(each.tolist() for each in part), strict=True)
    }
    found: Pairs = set()
    owners: dict[int, int] = {}
    calls = list(joined_blocks(received, 500))
    assert received == {}
    for number, (peids, sub_ids, tally) in enumerate(calls):
        assert tally == tally_of(peids, sub_ids, 0)
        found |= set(zip(peids.tolist(), sub_ids.tolist(), strict=True))
        for peid in set(peids.tolist()):
            assert owners.setdefault(peid, number) == number, "an entity is split"
    assert found == expected
    assert len(calls) == 1 if blocks == 1 else len(calls) > 1


def test_an_error_of_a_reader_arrives_as_such() -> None:
    batches = [block_rows(*pairs_of(3), 7), error_row(SourceError("no such file"))]
    received, error = received_blocks(batches)
    assert error == TaskError("SourceError", "no such file")
    assert sum(block.tally.pairs for block in received.values()) == 2_000


def test_the_columns_for_spark_are_those_of_arrow() -> None:
    kinds = {"int": "int32", "long": "int64", "binary": "binary", "string": "string"}
    columns = [column.split() for column in BLOCK_COLUMNS.split(", ")]
    assert [(name, kinds[kind]) for name, kind in columns] == [
        (field.name, str(field.type)) for field in BLOCK_SCHEMA
    ]
