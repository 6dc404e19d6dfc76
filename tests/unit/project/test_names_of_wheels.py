"""No page, help text or error names a distribution that is not ours.

The name ``spaps`` on the public index belongs to another product.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SUFFIXES = {".md", ".py", ".toml", ".html", ".service", ".sh"}
NOT_OURS = {".venv", ".git", "lake", "out"}
WRONG = re.compile(
    r"""pip\ install\s+(?:-\S+\s+)*['"]?spaps(?!-mqtt|-server)  # installs a stranger's package
    | (?<![-\w.])spaps\[[a-z]                                   # an extra of it
    """,
    re.VERBOSE,
)


def test_no_file_tells_a_reader_to_install_the_wrong_package(repository: Path) -> None:
    places = [one for one in repository.iterdir() if one.name not in NOT_OURS]
    files = [
        file
        for place in places
        for file in (place.rglob("*") if place.is_dir() else [place])
        if file.suffix in SUFFIXES and file.is_file() and file != Path(__file__)
    ]
    assert len(files) > 300
    for file in files:
        found = WRONG.search(file.read_text("utf-8"))
        assert found is None, f"{file}: {found and found[0]}"


@pytest.mark.parametrize(
    "text", ["pip install spaps", "pip install 'spaps[cli]'", "pip install -U spaps", "spaps[cli]"]
)
def test_what_is_wrong_is_found(text: str) -> None:
    assert WRONG.search(text)


@pytest.mark.parametrize(
    "text", ["pip install spaps-mqtt", "pip install 'spaps-server[world]'", "spaps sub"]
)
def test_what_is_right_is_not(text: str) -> None:
    assert not WRONG.search(text)
