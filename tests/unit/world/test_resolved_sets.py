"""Members that a rebuild has kept: taken over only when they were found by the same method."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
import pytest

from spatial_udfs.incremental.member_rows import MemberRows
from world.memberships import resolved_sets
from world.memberships.resolved_sets import SETS_FILE, ResolvedSets

ROWS = MemberRows(
    np.array([0, 0], np.int32), np.array([1, 1], np.int32), np.array([True, True]), np.array([4, 7])
)
RESULT = ResolvedSets(
    hashes=("h",), descriptors=("d",), resolved=np.array([True]), rows=ROWS,
    sub_ids=np.array([1, 2]), set_of=np.array([0, 0]),
)  # fmt: skip


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    RESULT.save(tmp_path)
    loaded = ResolvedSets.load(tmp_path)
    assert loaded is not None
    assert loaded.rows.peids.tolist() == [4, 7]
    assert loaded.hashes == RESULT.hashes


@pytest.mark.parametrize("method", [1, 3])
def test_members_of_another_method_are_not_taken_over(tmp_path: Path, method: int) -> None:
    with patch.object(resolved_sets, "MEMBER_METHOD", method):
        RESULT.save(tmp_path)
        assert ResolvedSets.load(tmp_path) is not None
    assert ResolvedSets.load(tmp_path) is None


def test_members_of_the_first_release_are_not_taken_over(tmp_path: Path) -> None:
    """It wrote no method, and gave some pairs another matrix."""
    RESULT.save(tmp_path)
    sets = pq.read_table(tmp_path / SETS_FILE)
    pq.write_table(sets.drop_columns(["method"]), tmp_path / SETS_FILE)
    assert ResolvedSets.load(tmp_path) is None
