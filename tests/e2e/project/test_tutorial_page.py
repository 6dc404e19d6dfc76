"""docs/tutorial.md from beginning to end, with mosquitto's clients and a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testing.chromium import running_chromium
from tests.scenes.page_blocks import Block, blocks, free_ports, linked_clone, parameters

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorial.md"


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return free_ports("1887")


@pytest.fixture(scope="module")
def clone(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], Path]
) -> Iterator[Path]:
    program("mosquitto_sub")
    folder = tmp_path_factory.mktemp("tutorial")
    with linked_clone(repository, folder, "out/town/broker.pid") as made:
        yield made


@pytest.mark.parametrize("block", parameters(PAGE))
def test_the_block_runs(block: Block, clone: Path, ports: dict[str, int]) -> None:
    block.run_in(clone, ports)


def test_the_link_of_the_message_shows_its_entity(
    clone: Path, tmp_path: Path, program: Callable[[str], Path]
) -> None:
    [link] = [
        block.expected.strip()
        for block in blocks(PAGE.read_text("utf-8"))
        if block.expected is not None and "#selected=" in block.expected
    ]
    with running_chromium(program("chromium"), tmp_path / "profile") as page:
        page.open(f"{clone.as_uri()}/{link}")
        page.wait("document.documentElement.dataset.ready === 'yes'")
        card = page.evaluate("document.getElementById('picked').innerText")
        page.screenshot(clone / "out" / "town" / "map.png")
    peid = link.partition("=")[2]
    assert [part in card for part in ("Parkhaus Kai", "P-1", peid)] == [True] * 3, card
