"""Arrow can be kept from loading pandas, and pandas can still be had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenes.searched_town import ENTITIES, write_town

REPOSITORY = Path(__file__).resolve().parents[3]
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


def test_commands_on_a_world_do_without_it(tmp_path: Path) -> None:
    """Loading pandas would be a third of the time of a short command."""
    world = write_town(tmp_path / "town")
    commands = [
        ["find", "--world", world, "ete"],
        ["categories", "--world", world],
        ["resolve", "--world", world, f"({{{ENTITIES[0][0]}}},{{#}},NOT DW1)"],
        ["export", "--world", world, "all.csv"],
        ["import", "--world", "other", "--id-field", "nr", "--category", "shop", "a.geojsonl"],
        ["versions", "--world", "other"],
    ]
    shop = {"type": "Point", "coordinates": [7.42, 43.73]}
    row = {"type": "Feature", "properties": {"nr": "A-1"}, "geometry": shop}
    (tmp_path / "a.geojsonl").write_text(f"{json.dumps(row)}\n")
    code = (
        "from spaps.cli.command_line import run\n"
        f"for one in {commands!r}: assert run(one) == 0, one"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{IS_LOADED}"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False"


def test_modules_leave_it_to_their_main_function() -> None:
    """What an import has loaded can be hidden no more; each start would pay for it."""
    code = f"import broker.resolver.resolver_worker, world.imports.world_import; {IS_LOADED}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
