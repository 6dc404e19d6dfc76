"""Each kind of problem has advice, and a row in the table of docs/data.md."""

from __future__ import annotations

import re
from pathlib import Path

from world.imports.dry_run import ADVICE
from world.sources.candidates import ProblemKind

PAGE = Path(__file__).resolve().parents[4] / "docs" / "data.md"


def test_each_kind_has_advice() -> None:
    assert set(ADVICE) == set(ProblemKind)


def test_the_page_lists_each_kind_once() -> None:
    section = PAGE.read_text("utf-8").partition("\n## Problems\n")[2].partition("\n## ")[0]
    first_cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    listed = [kind for cell in first_cells for kind in re.findall(r"`([a-z-]+)`", cell)]
    assert sorted(listed) == sorted(ProblemKind)
