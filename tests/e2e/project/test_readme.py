"""The code blocks of README and of the pages beside it run, and print what stands below them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

BLOCK = re.compile(
    r"^```(?P<kind>bash|python)\n(?P<code>.*?)^```\n(?:```text\n(?P<expected>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
REPOSITORY = Path(__file__).resolve().parents[3]
README = REPOSITORY / "README.md"
# In this order: the pages after the README use what its blocks have made.
PAGES = [README, *(REPOSITORY / "docs" / f"{name}.md" for name in ("language", "commands", "data"))]
MOST_LINES = 150


@dataclass(frozen=True)
class Block:
    """A piece of code, and the output that stands right below it, if any does."""

    kind: str
    code: str
    expected: str | None

    def run_in(self, folder: Path) -> None:
        """Run as a reader would who copies it into a shell in the clone; AssertionError if not."""
        strict = "set -euo pipefail\n" if self.kind == "bash" else ""
        program = ["bash", "-c"] if self.kind == "bash" else [sys.executable, "-c"]
        done = subprocess.run(
            [*program, strict + self.code],
            cwd=folder,
            env={
                **os.environ,
                "COLUMNS": "100",
                "PATH": f"{folder}/.venv/bin:{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, f"{self.code}\n{done.stdout}\n{done.stderr}"
        if self.expected is not None:
            assert done.stdout == self.expected


def blocks(text: str) -> list[Block]:
    return [
        Block(found["kind"], found["code"], found["expected"]) for found in BLOCK.finditer(text)
    ]


@pytest.fixture(scope="module")
def clone(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The repository as a folder of links, so that what the blocks write goes elsewhere."""
    folder = tmp_path_factory.mktemp("readme")
    for entry in repository.iterdir():
        if entry.name not in {"lake", "out", ".git"}:
            (folder / entry.name).symlink_to(entry)
    if not (folder / ".venv").exists():
        (folder / ".venv").symlink_to(Path(sys.prefix))
    yield folder
    # The reader is told to stop the broker; the tests do it when all blocks are through.
    broker = folder / "out" / "broker.pid"
    if broker.exists():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(broker.read_text()), signal.SIGTERM)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=f"{page.stem}-{block.kind}")
        for page in PAGES
        for block in blocks(page.read_text("utf-8"))
    ],
)
def test_the_block_runs(block: Block, clone: Path) -> None:
    block.run_in(clone)


def test_the_readme_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= MOST_LINES


def test_the_readme_has_blocks_of_both_kinds() -> None:
    found = blocks(README.read_text("utf-8"))
    assert {block.kind for block in found} == {"bash", "python"}
    assert any(block.expected for block in found)
    assert "make demo\n" in [block.code for block in found]


@pytest.mark.parametrize(
    "text",
    [
        "```bash\nfalse\necho fine\n```\n",
        "```bash\nfalse | cat\n```\n",
        "```bash\necho one\n```\n```text\ntwo\n```\n",
        "```python\n1 / 0\n```\n",
        "```python\nprint(1)\n```\n```text\n2\n```\n",
    ],
)
def test_a_wrong_block_fails(text: str, tmp_path: Path) -> None:
    (block,) = blocks(text)
    with pytest.raises(AssertionError):
        block.run_in(tmp_path)


def test_every_page_that_is_linked_exists(repository: Path) -> None:
    pages = [*repository.glob("*.md"), *repository.glob("d*/**/*.md")]
    assert repository / "docs" / "README.md" in pages
    for page in pages:
        text = page.read_text("utf-8")
        for target in re.findall(r"\]\((?!\w+:|#)([^)#]+)", text):
            assert (page.parent / target).exists(), f"{page}: {target}"
