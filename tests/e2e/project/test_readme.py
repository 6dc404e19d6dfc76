"""The code blocks of README and of the pages beside it run, and print what stands below them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenes.page_blocks import Block, blocks, linked_clone, parameters

REPOSITORY = Path(__file__).resolve().parents[3]
README = REPOSITORY / "README.md"
# In this order: the pages after the README use what its blocks have made.
PAGES = [README, *(REPOSITORY / "docs" / f"{name}.md" for name in ("language", "commands", "data"))]
MOST_LINES = 150


@pytest.fixture(scope="module")
def clone(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with linked_clone(repository, tmp_path_factory.mktemp("readme"), "out/broker.pid") as folder:
        yield folder


@pytest.mark.parametrize("block", [block for page in PAGES for block in parameters(page)])
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
