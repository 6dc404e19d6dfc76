"""Arrow without pandas: nothing here is a pandas object, and loading it takes a fifth of a second.

pyarrow looks for pandas once in a process, the first time that it is given something to convert,
so as to know its types. Where it finds none it goes without; others may import pandas later.
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
            raise ModuleNotFoundError("not wanted now", name=fullname)
        return None


def keep_pandas_out() -> None:
    """Let pyarrow look now, and find nothing; no effect where it has looked already."""
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
