"""Keeps pyarrow from importing pandas, which costs 0.2 s and 50 MB and is not used here.

pyarrow looks for pandas once in a process, when it converts its first value. If the import fails
then, pyarrow works without it. Other code can still import pandas later. Commands that must answer
within a second need this where pandas is installed, which is with Spark only
(docs/decisions/0181-search-without-an-index.md).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the protocol's shape
        target: ModuleType | None = None,  # noqa: ARG002 - the protocol's shape
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is hidden from pyarrow", name=fullname)
        return None


def hide_pandas_from_arrow() -> None:
    """Make pyarrow look for pandas now and find nothing; no effect if it has looked already."""
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
