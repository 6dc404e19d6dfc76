"""What Delta, Arrow and the file system say about a broken table, as one line for people."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake.exceptions import DeltaError

from schemas.errors import SpapsError, WorldError

LOG_FOLDER: Final = "_delta_log"
# Whatever a look into a Delta table can raise.
TABLE_ERRORS: Final = (DeltaError, OSError, pa.ArrowException)

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
# The native libraries append the calls that led to an error: numbered, most without a name.
_BACKTRACE: Final = re.compile(r"\s+(?:stack backtrace:\s+)?0: .*", re.DOTALL)
_PREFIX: Final = re.compile(r"^(?:(?:Generic delta kernel|Kernel|Arrow|Generic \w+) error: )+")
_MISSING: Final = re.compile(
    r"Object at location (\S+) not found|Failed to open local file '([^']+)'.*\[errno 2\]"
)
_NOT_PARQUET: Final = re.compile(r"Could not open Parquet input source '([^']+)'")
# What the system said; the libraries write their own words around it.
_OF_THE_SYSTEM: Final = re.compile(
    r"No space left on device|Disk quota exceeded|File too large|[Pp]ermission denied"
)
_OF_THE_LOG: Final = re.compile(
    r"Json error|No table metadata|No files in log segment|Corrupt footer|Invalid Parquet file|"
    r"[Cc]heckpoint|Invalid JSON in log"
)
RESTORE: Final = "restore the folder from a copy, or import into another one"


def table_reason(error: BaseException) -> str:
    """Return in one line why a table cannot be read or written."""
    text = _COLOURS.sub("", str(error)).replace("\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}", ":")
    if found := _MISSING.search(text):
        return f"the file {found[1] or found[2]} is missing: {RESTORE}"
    if found := _NOT_PARQUET.search(text):
        return f"the file {found[1]} is damaged, it is no whole Parquet file: {RESTORE}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if found := _OF_THE_SYSTEM.search(text):
        return found[0]
    reason = _PREFIX.sub("", " ".join(_BACKTRACE.sub("", text).split()))
    if _OF_THE_LOG.search(text):
        return f"its log ({LOG_FOLDER}) is damaged: {reason.rstrip('.')}: {RESTORE}"
    return reason or type(error).__name__


@contextmanager
def table_errors(what: str) -> Iterator[None]:
    """Turn what is raised inside into a WorldError about ``what``; errors of ours stay."""
    try:
        yield
    except SpapsError:
        raise
    except TABLE_ERRORS as error:
        raise WorldError(f"{what}: {table_reason(error)}") from error


def check_table_folder(folder: Path) -> None:
    """Raise an error for a local table that Delta would take for one that is not there.

    It reads a folder without rights and an empty entry of the log as if there were nothing. An
    import would then begin again at version 1.
    """
    if not _is_there(folder):
        return
    log = folder / LOG_FOLDER
    try:
        entries = [entry for entry in os.scandir(log) if entry.name.endswith(".json")]
        empty = sorted(entry.name for entry in entries if not entry.stat().st_size)
    except FileNotFoundError:
        if any(folder.rglob("*.parquet")):
            raise WorldError(f"{folder}: its log ({LOG_FOLDER}) is gone: {RESTORE}") from None
        return
    except NotADirectoryError:
        raise WorldError(f"{folder}: is a file, not the folder of a table") from None
    except OSError as error:
        raise WorldError(f"{error.filename or log}: {(error.strerror or str(error))}") from error
    if empty:
        raise WorldError(f"{log / empty[0]}: an empty entry of a table's log: {RESTORE}")


def _is_there(folder: Path) -> bool:
    try:
        folder.lstat()
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise WorldError(f"{folder.parent}: is a file, not a folder") from None
    except OSError as error:
        raise WorldError(f"{error.filename or folder}: {error.strerror or error}") from error
    return True
