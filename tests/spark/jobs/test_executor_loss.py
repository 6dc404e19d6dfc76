"""An executor dies in the middle of a step: the rows are the same, and nothing is left in force."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from schemas.entity import RELATED_TABLE
from schemas.language.notation import read_neighborhood
from testing.synthetic_city import synthetic_city
from tests.conftest import REPOSITORY
from tests.scenes.bulk_scene import (
    bulk_rows,
    exact_rows,
    write_lines,
    write_world,
)
from tests.servers.submitted_job import WAIT_SECONDS
from world.lake.scratch import SCRATCH_FOLDER

pytestmark = pytest.mark.spark

# Steps by the names of their tasks: ten kills in two runs, of which the first has to find pairs.
RUNS = (
    ("survey", "_written_bucket", "settle", "select", "_WritingTask"),
    ("divide", "joined", "route", "ask", "_WritingTask"),
)


def lose(world: str, lines: Path, out: Path) -> list[str]:
    """Run the job for each list of steps, in one application; what each run printed."""
    program = [sys.executable, "-m", "tests.servers.losing_executors", world, str(lines), str(out)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [*program, *map(",".join, RUNS)],
        cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=WAIT_SECONDS,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.split(r"^run \d+$", done.stdout, flags=re.MULTILINE)[1:]
    assert len(said) == len(RUNS)
    return said


def test_ten_executors_die(program: Callable[[str], Path], tmp_path: Path) -> None:
    program("java")
    city = synthetic_city(600, seed=4)
    zones = [peid for peid in city.peids.tolist() if peid % 7 == 0][:20]
    wanted = [
        read_neighborhood(text.format(zone))
        for zone in zones
        for text in ("({{{}}},{{#}},I) • (Prev,{{#}},T)", "({{{}}},{{#}},DW40)", "({{{}}},{{#}},D)")
    ]
    lines = write_lines(tmp_path / "s.jsonl", wanted)
    world = write_world(tmp_path / "world", city)
    expected = exact_rows(city, wanted)
    for number, said in enumerate(lose(world, lines, tmp_path / "out")):
        out = tmp_path / "out" / str(number)
        for step in RUNS[number]:
            assert f"killed in {step}" in said
        assert ("related pairs computed" in said) == (number == 0)
        assert bulk_rows(out) == expected
        assert not (out / SCRATCH_FOLDER).exists()
    pairs = DeltaTable(f"{world}/{RELATED_TABLE}").to_pyarrow_table(columns=["reference", "entity"])
    assert len(set(zip(*pairs.to_pydict().values(), strict=True))) == len(pairs)
