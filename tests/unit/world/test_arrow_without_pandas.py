"""Arrow can be kept from loading pandas, and pandas can still be had."""

from __future__ import annotations

import subprocess
import sys

import pytest

READ_A_TABLE = "import pyarrow as pa; pa.Table.from_pylist([{'a': 1}]).to_pylist()"
IS_LOADED = "import sys; print('pandas' in sys.modules)"
KEEP_OUT = "from world.arrow_without_pandas import hide_pandas_from_arrow; hide_pandas_from_arrow()"


@pytest.mark.parametrize(
    ("first", "loaded"),
    [(KEEP_OUT, "False"), (f"{KEEP_OUT}; import pandas", "True"), ("pass", "True")],
)
def test_pandas_is_loaded_only_by_who_wants_it(first: str, loaded: str) -> None:
    code = f"{first}; {READ_A_TABLE}; {IS_LOADED}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == loaded


def test_modules_leave_it_to_their_main_function() -> None:
    """What an import has loaded can be hidden no more; each start would pay for it."""
    code = f"import broker.resolver.resolver_worker, world.imports.world_import; {IS_LOADED}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
