"""Files of lines, cut into ranges of bytes that tasks read side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import pyarrow.fs as pa_fs

from schemas.errors import SourceError
from schemas.storage_credentials import LOCAL
from world.lake.lake_tables import LakeTable

# Lines that a task takes apart at once.
BLOCK_BYTES: Final = 8_000_000
# A range is worth a task of its own, and no task reads more than a few blocks.
LEAST_BYTES: Final = 2_000_000
MOST_BYTES: Final = 32_000_000
_STEP_BYTES: Final = 100_000

# By the end of its name Arrow knows how a file was packed; the others only Hadoop unpacks.
_PACKED: Final = (".gz", ".bz2", ".lz4", ".zst")
_UNREADABLE: Final = (".snappy", ".deflate")

_ROOT: Final = f"{LOCAL}/"
_PATTERN: Final = re.compile(r"[*?\[]")


class LineRange(NamedTuple):
    """The lines of a file that start at ``start`` or later and before ``end``.

    A packed file has no places to start at: it is one range.
    """

    number: int
    path: str
    start: int
    end: int
    is_packed: bool


def line_files(store: pa_fs.FileSystem, folder: str, pattern: str = "*") -> list[pa_fs.FileInfo]:
    """Return the files of a folder as Spark would read them, in the order of their paths.

    Hidden ones are left out, and folders other than those that Spark divides rows into.
    """
    files: list[pa_fs.FileInfo] = []
    for info in store.get_file_info(pa_fs.FileSelector(folder)):
        if info.type is pa_fs.FileType.File:
            is_hidden = info.base_name.startswith(("_", "."))
            if not is_hidden and fnmatchcase(info.base_name, pattern):
                files.append(info)
        elif "=" in info.base_name and not info.base_name.startswith("."):
            files.extend(line_files(store, info.path, pattern))
    return sorted(files, key=lambda info: info.path)


def files_at(at: LakeTable) -> tuple[LakeTable, list[pa_fs.FileInfo] | None]:
    """Return the files at the path, and their folder; None for a Delta table."""
    uri, _, name = at.uri.rpartition("/")
    # A whole store lies in nothing; what lies in the root of a disk does.
    around = replace(at, uri=_ROOT if uri == LOCAL else uri)
    info = None if uri.endswith(":/") else around.store().get_file_info(name)
    if info is not None and info.type is pa_fs.FileType.File:
        return around, [info]
    if info is None or info.type is pa_fs.FileType.Directory:
        log = at.store().get_file_info("_delta_log")
        is_table = log.type is pa_fs.FileType.Directory
        return at, None if is_table else line_files(at.store(), "")
    # Not there, or a pattern for several files.
    return around, line_files(around.store(), "", name) if _PATTERN.search(name) else []


def line_ranges(files: Sequence[pa_fs.FileInfo], at_once: int) -> list[list[LineRange]]:
    """Return the ranges that tasks read, for ``at_once`` tasks at a time or several times as many.

    A large file is cut into ranges for many tasks; one task reads many small files.
    """
    total = sum(info.size for info in files)
    width = min(max(LEAST_BYTES, -(-total // at_once)), MOST_BYTES)
    shares: list[list[LineRange]] = []
    held = width
    for number, (path, start, end, is_packed) in enumerate(_cut(files, width)):
        if held + end - start > width:
            shares.append([])
            held = 0
        shares[-1].append(LineRange(number, path, start, end, is_packed))
        held += end - start
    return shares


def _cut(files: Sequence[pa_fs.FileInfo], width: int) -> Iterator[tuple[str, int, int, bool]]:
    for info in files:
        is_packed = _is_packed(info.path)
        step = info.size if is_packed else min(width, info.size)
        for start in range(0, info.size, max(step, 1)):
            yield info.path, start, min(start + step, info.size), is_packed


def blocks_of(store: pa_fs.FileSystem, lines: LineRange) -> Iterator[bytes]:
    """Yield the lines of a range, some megabytes of whole lines at once."""
    if lines.is_packed:
        with store.open_input_stream(lines.path, compression="detect") as stream:
            yield from _whole_lines(stream, left=None, within_line=False)
        return
    with store.open_input_file(lines.path) as stream:
        # The byte before tells whether a line starts here or goes on here.
        before = 1 if lines.start else 0
        stream.seek(lines.start - before)
        left = lines.end - lines.start + before
        yield from _whole_lines(stream, left, within_line=before > 0)


def _whole_lines(stream: Any, left: int | None, *, within_line: bool) -> Iterator[bytes]:
    """Yield whole lines; the last one may end behind the ``left`` bytes in which it starts."""
    held = b""
    while data := stream.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left)):
        left = None if left is None else left - len(data)
        held += data
        if within_line:
            line_end = held.find(b"\n") + 1
            held, within_line = held[line_end:], line_end == 0
            if within_line:
                held = b""
                continue
        if left == 0 and held:
            held = _line_completed(held, stream)
        complete = held.rfind(b"\n") + 1
        if complete:
            yield held[:complete]
            held = held[complete:]
    if held:
        yield held


def _line_completed(held: bytes, stream: Any) -> bytes:
    while not held.endswith(b"\n") and (data := stream.read(_STEP_BYTES)):
        line_end = data.find(b"\n") + 1
        held += data[:line_end] if line_end else data
    return held


def _is_packed(path: str) -> bool:
    if path.endswith(_UNREADABLE):
        raise SourceError(
            f"{path} is packed in a way that is not read; allowed: {', '.join(_PACKED)}"
        )
    return path.endswith(_PACKED)
