"""The tables of docs/scale.md are those that its command computes from the measured run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "scale.md").read_text("utf-8")


def computed(*options: str) -> list[str]:
    command = [sys.executable, "-m", "bench.bulk.scale", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line]


def test_each_computed_line_is_on_the_page() -> None:
    written = PAGE.splitlines()
    assert [line for line in computed() if line not in written] == []


def test_lines_of_another_size_are_not_on_the_page() -> None:
    written = PAGE.splitlines()
    assert [line for line in computed("--entities", "5000000") if line not in written] != []


def test_twice_the_subscriptions_give_twice_the_rows() -> None:
    [once], [twice] = (
        [line for line in computed("--subscriptions", count) if line.startswith("| memberships")]
        for count in ("1000000", "2000000")
    )
    figures = [int(line.split("|")[4].replace(",", "")) for line in (once, twice)]
    assert figures[1] == 2 * figures[0]
