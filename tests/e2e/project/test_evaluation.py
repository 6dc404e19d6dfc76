"""The evaluation runs from beginning to end at its smallest size; figures are not judged here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PNG = b"\x89PNG\r\n\x1a\n"
IN_THROUGHPUT = {
    "memory", "Redis", "Redis, cold", "no filter", "in-database", "in-database, batched",
    "Mosquitto", "amqtt",
}  # fmt: skip
COMPARED = {"memory", "Redis", "in-database", "Mosquitto"}


@pytest.fixture(scope="module")
def docs(program: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the page of a run without the data of Berlin."""
    program("mosquitto")
    program("postgis-3.so")
    folder = tmp_path_factory.mktemp("evaluation")
    options = ("--size", "smallest", "--data", str(folder / "no-data"), "--out", str(folder))
    done = subprocess.run(
        [sys.executable, "-m", "bench.evaluation", *options],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def figures(docs: Path) -> dict[str, Any]:
    """What the run measured."""
    return json.loads((docs / "figures" / "evaluation.json").read_text("utf-8"))


def test_every_message_reaches_its_subscriber_in_every_system(figures: dict[str, Any]) -> None:
    found = figures["throughput"]["runs"]
    assert set(found) == IN_THROUGHPUT
    runs = [*(run for each in found.values() for run in each), *figures["filtering"]]
    for run in runs:
        assert run["delivered"] == run["expected"] == run["sent"] > 0, run
    assert {row["system"] for row in figures["filtering"]} == {*COMPARED, "Redis, cold"}


def test_messages_of_the_city_go_to_all_vehicles_that_hold_their_entity(
    figures: dict[str, Any],
) -> None:
    rows = figures["city"]["rows"]
    assert {row["system"] for row in rows} == COMPARED
    for row in rows:
        assert row["delivered"] == row["expected"] > 0, row
        assert row["rolling"], row


def test_every_change_is_answered(figures: dict[str, Any]) -> None:
    assert {row["system"] for row in figures["adding"]} == COMPARED
    assert {row["system"] for row in figures["scope"]} == {"memory", "PostGIS"}
    cities = [row["adding"] for row in figures["city"]["rows"]]
    for row in [*figures["adding"], *figures["scope"], *cities]:
        assert row["added"] > 0, row
        assert row["missing"] == 0, row


def test_the_page_says_what_it_is_and_shows_all_plots(docs: Path, repository: Path) -> None:
    page = (docs / "evaluation.md").read_text("utf-8")
    assert "python -m bench.evaluation --size smallest" in page
    assert "*smallest* run" in page
    assert "Monaco, stands in" in page
    assert "$" not in page
    shown = re.findall(r"!\[[^]]*\]\(([^)]+)\)", page)
    assert len(shown) == 6
    assert all((docs / plot).read_bytes().startswith(PNG) for plot in shown)
    links = re.findall(r"\]\((decisions/[^)]+)\)", page)
    assert links
    assert all((repository / "docs" / link).is_file() for link in links)


def test_the_page_can_be_written_again_from_the_figures(docs: Path) -> None:
    page = docs / "evaluation.md"
    before = page.read_text("utf-8")
    page.unlink()
    command = [sys.executable, "-m", "bench.evaluation", "--from-figures", "--out", str(docs)]
    subprocess.run(command, cwd=docs, check=True, capture_output=True)
    assert page.read_text("utf-8") == before
