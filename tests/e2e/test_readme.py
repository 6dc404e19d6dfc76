"""The code blocks of the README run, in their order, and print what stands below them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

BLOCK = re.compile(
    r"^```(?P<kind>bash|python)\n(?P<code>.*?)^```\n(?:```text\n(?P<expected>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
README = Path(__file__).resolve().parents[2] / "README.md"


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
def clone(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as a folder of links, so that what the blocks write goes elsewhere."""
    folder = tmp_path_factory.mktemp("readme")
    for entry in repository.iterdir():
        if entry.name not in {"lake", "out", ".git"}:
            (folder / entry.name).symlink_to(entry)
    if not (folder / ".venv").exists():
        (folder / ".venv").symlink_to(Path(sys.prefix))
    return folder


@pytest.mark.parametrize("block", blocks(README.read_text("utf-8")), ids=lambda block: block.kind)
def test_the_block_runs(block: Block, clone: Path) -> None:
    block.run_in(clone)


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
