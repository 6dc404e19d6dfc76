"""Memberships of versions that are gone go too, and with them what killed writers left."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from world.memberships.membership_table import SCHEMA, memberships_path, remove_memberships

TWO_DAYS = 2 * 24 * 3600


def test_only_kept_versions_and_young_files_stay(tmp_path: Path) -> None:
    table = Path(memberships_path(str(tmp_path)))
    for version in (1, 2):
        rows = pa.table([[version], [7], [70], [1]], schema=SCHEMA)
        write_deltalake(table, rows, mode="append", partition_by=["version"])
    [written] = (table / "version=2").iterdir()
    left, young = written.with_name("left.parquet"), written.with_name("young.parquet")
    for file in (left, young):
        shutil.copyfile(written, file)
    long_ago = time.time() - TWO_DAYS
    os.utime(left, (long_ago, long_ago))
    assert remove_memberships(str(tmp_path), frozenset({2})) == [1]
    assert DeltaTable(table).to_pyarrow_table().column("version").to_pylist() == [2]
    assert sorted((table / "version=2").iterdir()) == sorted([written, young])
    before = DeltaTable(table).version()
    assert remove_memberships(str(tmp_path), frozenset({2})) == []
    assert DeltaTable(table).version() == before


def test_where_there_is_no_table_nothing_is_removed(tmp_path: Path) -> None:
    assert remove_memberships(str(tmp_path), frozenset({1})) == []
