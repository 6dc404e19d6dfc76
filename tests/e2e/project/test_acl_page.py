"""The example of docs/acl.md: users, rights and refusals with a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenes.page_blocks import Block, free_ports, linked_clone, parameters

PAGE = Path(__file__).resolve().parents[3] / "docs" / "acl.md"


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return free_ports("1886")


@pytest.fixture(scope="module")
def clone(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with linked_clone(repository, tmp_path_factory.mktemp("acl"), "out/acl/broker.pid") as made:
        yield made


@pytest.mark.parametrize("block", parameters(PAGE))
def test_the_block_runs(block: Block, clone: Path, ports: dict[str, int]) -> None:
    block.run_in(clone, ports)
