"""Delta tables are read without Python in Arrow's threads: a process may end at any time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake

from schemas.entity import VERSION
from world.versions.delta_tables import delta_rows, rows_file_by_file

# Arrow's threads let go of a file when its rows are there; here that takes its time, and the
# interpreter ends before. The same happens by chance when files are let go of at once.
SLOW_FILES = """
import sys, time
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

class SlowFile:
    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __del__(self):
        time.sleep(0.3)

fast = DeltaStorageHandler.open_input_file
DeltaStorageHandler.open_input_file = lambda self, path: pa.PythonFile(
    SlowFile(fast(self, path)), mode="r"
)
"""
BY_DELTALAKE = "rows = DeltaTable(sys.argv[1]).to_pyarrow_table()"
ON_DISK = "from world.versions.delta_tables import *\nrows = delta_rows(DeltaTable(sys.argv[1]))"
ANY_STORE = (
    "from world.versions.delta_tables import *\nrows = rows_file_by_file(DeltaTable(sys.argv[1]))"
)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """Two versions in files of their own; the second has one more column."""
    path = tmp_path / "a place with spaces and ü" / "table"
    first = pa.table({VERSION: pa.array([1, 1]), "peid": pa.array([7, 8])})
    second = pa.table(
        {VERSION: pa.array([2, 2]), "peid": pa.array([8, 9]), "name": pa.array(["x", None])}
    )
    write_deltalake(str(path), first, partition_by=[VERSION])
    write_deltalake(str(path), second, mode="append", schema_mode="merge", partition_by=[VERSION])
    return DeltaTable(str(path))


def sorted_rows(rows: pa.Table) -> list[dict[str, object]]:
    return sorted(rows.to_pylist(), key=lambda row: (row.get(VERSION, 0), row["peid"]))


@pytest.mark.parametrize("columns", [None, ["peid"], ["name", "peid"], [VERSION, "peid"]])
@pytest.mark.parametrize("version", [None, 1, 2, 3])
def test_both_ways_give_what_deltalake_gives(
    table: DeltaTable, columns: list[str] | None, version: int | None
) -> None:
    where = None if version is None else ds.field(VERSION) == version
    expected = sorted_rows(table.to_pyarrow_dataset().to_table(columns=columns, filter=where))
    on_disk, any_store = (read(table, columns, where) for read in (delta_rows, rows_file_by_file))
    assert sorted_rows(on_disk) == expected
    assert sorted_rows(any_store) == expected
    assert any_store.schema == on_disk.schema


@pytest.mark.parametrize("most", [0, 1, 3, 9])
def test_no_more_than_asked_for(table: DeltaTable, most: int) -> None:
    for read in (delta_rows, rows_file_by_file):
        assert read(table, ["peid"], None, most).num_rows == min(most, 4)


def exit_code(table: DeltaTable, reading: str) -> tuple[int, str]:
    script = f"{SLOW_FILES}\n{reading}\nprint(rows.num_rows, flush=True)"
    ended = subprocess.run(
        [sys.executable, "-c", script, table.table_uri],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout.strip()


@pytest.mark.parametrize("reading", [ON_DISK, ANY_STORE], ids=["on disk", "any store"])
def test_a_process_that_has_read_a_table_ends_with_code_0(table: DeltaTable, reading: str) -> None:
    assert exit_code(table, reading) == (0, "4")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="threads wait at exit since Python 3.14")
def test_reading_by_deltalake_alone_is_caught(table: DeltaTable) -> None:
    """The control: with files that are let go of late, its own way ends in an abort.

    On a busy machine the interpreter may be later still, so there are several attempts.
    """
    assert any(exit_code(table, BY_DELTALAKE) == (-6, "4") for _ in range(10))


def test_nothing_reads_a_table_in_another_way(repository: Path) -> None:
    """All commands and jobs: each of them could end in the wrong moment."""
    other_ways = re.compile(r"\.to_(pyarrow_(table|dataset)|pandas)\(")
    found = [
        str(path.relative_to(repository))
        for room in ("world", "rebuild", "jobs", "broker", "spaps", "redis_link", "spatial_udfs")
        for path in sorted((repository / room).rglob("*.py"))
        if other_ways.search(path.read_text("utf-8"))
    ]
    assert found == ["world/versions/delta_tables.py"]
