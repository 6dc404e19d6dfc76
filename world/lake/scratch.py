"""The scratch folder of a run: what one step leaves for the next, in files.

A file outlives the executor that wrote it, so the loss of an executor costs the tasks that ran on
it and nothing before them. Files are written once, under names of their own, by whichever
attempt of a task writes them; the names that count are those that came to the driver.
"""

from __future__ import annotations

import pickle
import shutil
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from schemas.storage_credentials import LOCAL
from world.lake.lake_tables import LakeTable, lake_errors
from world.versions.removal import KEEP_FILES_HOURS

SCRATCH_FOLDER: Final = ".scratch"
# What a worker remembers of files at the most.
MOST_REMEMBERED_BYTES: Final = 256 << 20

_BUFFER_BYTES: Final = 4 << 20
_PART_BYTES: Final = 1 << 20

_remembered: OrderedDict[Hashable, tuple[int, Any]] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Scratch:
    """The folder; tasks get it with their code."""

    at: LakeTable

    def new_path(self, name: str) -> str:
        """Return a path that no other file has."""
        return f"{name}-{uuid.uuid4().hex}"

    def put(self, name: str, value: object) -> str:
        """Write a value into a new file, and return the path of the file."""
        path = self.new_path(name)
        content = pickle.dumps(value, protocol=5)
        with lake_errors(self.at.uri), self.at.store().open_output_stream(path) as stream:
            if self.at.on_disk:
                stream.write(content)
            else:
                # A store takes bytes alone, and gets them when they come out of a buffer.
                with pa.BufferedOutputStream(stream, _BUFFER_BYTES) as buffered:
                    for at in range(0, len(content), _PART_BYTES):
                        buffered.write(content[at : at + _PART_BYTES])
        return path

    def put_rows(self, name: str, rows: pa.Table) -> str:
        """Write rows for Spark to read, into a new file of Parquet; return its path."""
        path = self.new_path(name)
        with lake_errors(self.at.uri), self.at.store().open_output_stream(path) as stream:
            pq.write_table(rows, stream)
        return path

    def get(self, path: str) -> Any:
        """Read a value; a worker that has read it before remembers it."""
        return remembered((self.at.uri, path), lambda: self._read(path))

    def _read(self, path: str) -> tuple[int, Any]:
        with lake_errors(self.at.uri), self.at.store().open_input_file(path) as stream:
            content = stream.read()
        return len(content), pickle.loads(content)  # noqa: S301 - written by tasks of this run

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        _remove(self.at, "")
        if self.at.on_disk:
            with suppress(OSError):  # another run has one there
                Path(self.at.uri.removeprefix(LOCAL)).parent.rmdir()


def new_scratch(around: LakeTable, run: str) -> Scratch:
    """Make the scratch folder of a run beside those of others, and remove those of dead runs."""
    at = replace(around, uri=f"{around.uri}/{run}")
    if at.uri.startswith(LOCAL):
        Path(at.uri.removeprefix(LOCAL)).mkdir(parents=True, exist_ok=True)
    _remove_old(around)
    return Scratch(at)


def remembered(key: Hashable, read: Callable[[], tuple[int, Any]]) -> Any:
    """Return what ``read`` returns, with its size in bytes, or what it returned before."""
    if key in _remembered:
        _remembered.move_to_end(key)
        return _remembered[key][1]
    size, value = read()
    _remembered[key] = size, value
    while len(_remembered) > 1 and sum(size for size, _ in _remembered.values()) > (
        MOST_REMEMBERED_BYTES
    ):
        _remembered.popitem(last=False)
    return value


def _remove_old(around: LakeTable) -> None:
    """Remove what killed runs left. Run ids begin with their time; no run takes a day."""
    oldest = f"{datetime.now(UTC) - timedelta(hours=KEEP_FILES_HOURS):%Y%m%dT%H%M%S}"
    selector = pa_fs.FileSelector("", allow_not_found=True)
    with lake_errors(around.uri):
        for info in around.store().get_file_info(selector):
            if info.base_name < oldest:
                _remove(around, info.path)


def _remove(at: LakeTable, path: str) -> None:
    if at.on_disk:
        shutil.rmtree(Path(at.uri.removeprefix(LOCAL)) / path, ignore_errors=True)
        return
    with lake_errors(at.uri):
        store = at.store()
        selector = pa_fs.FileSelector(path, allow_not_found=True, recursive=True)
        for info in store.get_file_info(selector):
            if info.type is pa_fs.FileType.File:
                store.delete_file(info.path)
