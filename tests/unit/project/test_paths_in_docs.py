"""Pages of docs: every path, module and link that they name is there, or the page explains it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOMS = (
    "bench", "broker", "conf", "data", "docs", "jobs", "rebuild", "redis_link", "schemas", "spaps",
    "spatial_udfs", "testing", "tests", "wheels", "world",
)  # fmt: skip
ROOM = "|".join(ROOMS)
# `broker/core/limits.py`, `jobs/`, `tests/x.py::test_y`; not `lake/world`, which a command makes.
NAMED_PATH = re.compile(rf"`((?:{ROOM})/[\w./-]*)(?:::\w+)?`")
NAMED_MODULE = re.compile(rf"\bpython -m ((?:{ROOM})(?:\.\w+)+)")
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(?:#[^)]*)?\)")
MOVED = re.compile(r"^> Moved: `([^`]+)` is now `([^`]+)`\.$", re.MULTILINE)
SUPERSEDED = re.compile(r"^> Superseded (?:in part )?by \[\d{4}\]", re.MULTILINE)


def is_module(repository: Path, name: str) -> bool:
    """Whether ``python -m name`` finds something."""
    place = repository / name.replace(".", "/")
    return place.with_suffix(".py").is_file() or (place / "__main__.py").is_file()


def missing(page: str, folder: Path, repository: Path) -> list[str]:
    """What the page names and nobody finds; ``folder`` is where its links start."""
    lost = {link for link in LINK.findall(page) if not (folder / link).exists()}
    if SUPERSEDED.search(page):
        return sorted(lost)
    moved = {before for before, _ in MOVED.findall(page)}
    named = {path for path in NAMED_PATH.findall(page) if path not in moved}
    lost |= {path for path in named if not (repository / path).exists()}
    modules = NAMED_MODULE.findall(page)
    return sorted(lost.union(name for name in modules if not is_module(repository, name)))


def pages(repository: Path) -> list[Path]:
    """All pages of documentation."""
    beside = [repository / "README.md", repository / "CONTRIBUTING.md"]
    return [*beside, *sorted((repository / "docs").rglob("*.md"))]


def test_everything_that_a_page_names_is_there(repository: Path) -> None:
    found = {
        str(path.relative_to(repository)): lost
        for path in pages(repository)
        if (lost := missing(path.read_text("utf-8"), path.parent, repository))
    }
    assert found == {}


@pytest.mark.parametrize(
    "page",
    [
        "`broker/no_file.py` does it",
        "run `python -m bench.no_module --fast`",
        "see [the page](no_page.md#part)",
        "> Moved: `broker/no_file.py` is now `broker/no_other.py`.",
        "> Superseded by nothing\n\n`broker/no_file.py`",
    ],
)
def test_what_is_not_there_is_found(page: str, repository: Path) -> None:
    assert len(missing(page, repository / "docs", repository)) == 1


@pytest.mark.parametrize(
    "page",
    [
        "`broker/core/limits.py`, `tests/unit/project/test_paths_in_docs.py::pages`, `docs/`",
        "`lake/world`, `python -m bench.live`, [language](language.md#stages), [web](https://a.b)",
        "> Moved: `broker/no_file.py` is now `broker/core/limits.py`.\n\n`broker/no_file.py`",
        "> Superseded in part by [0135](README.md): no more.\n\n`broker/no_file.py`",
    ],
)
def test_what_is_there_or_explained_is_not_reported(page: str, repository: Path) -> None:
    assert missing(page, repository / "docs", repository) == []
