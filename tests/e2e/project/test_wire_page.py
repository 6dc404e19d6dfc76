"""The programs of docs/wire.md with the clients themselves, the web page in Chromium included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.scenes.page_blocks import Block, blocks, free_ports, linked_clone, parameters
from tests.servers.npm_packages import require_mqtt_js

PAGE = Path(__file__).resolve().parents[3] / "docs" / "wire.md"


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    """Free ports for those of the page: MQTT over TCP and over WebSocket."""
    return free_ports("1885", "8085")


@pytest.fixture(scope="module")
def clone(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], Path]
) -> Iterator[Path]:
    program("mosquitto_sub")
    folder = tmp_path_factory.mktemp("wire")
    (folder / "node_modules").symlink_to(require_mqtt_js())
    with linked_clone(repository, folder, "out/wire/broker.pid") as made:
        yield made


@pytest.mark.parametrize("block", parameters(PAGE))
def test_the_block_runs(block: Block, clone: Path, ports: dict[str, int]) -> None:
    block.run_in(clone, ports)


@pytest.mark.usefixtures("clone")
@pytest.mark.parametrize(
    "text",
    [
        "```javascript\nthrow new Error()\n```\n",
        "```javascript\nconsole.log(1)\n```\n```text\n2\n```\n",
    ],
)
def test_a_wrong_block_fails(text: str, tmp_path: Path) -> None:
    (block,) = blocks(text)
    with pytest.raises(AssertionError):
        block.run_in(tmp_path)
