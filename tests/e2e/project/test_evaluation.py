"""The evaluation runs as a whole at its smallest size, and in parts; figures are not judged."""

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
    "memory", "memory, cold", "Redis", "Redis, cold", "no filter", "in-database",
    "in-database, batched", "Mosquitto", "amqtt",
}  # fmt: skip
TABLES = ("filtering", "adding", "city", "scope")
PLOTS = 7
SCOPES = 4
COMPARED = {"memory", "Redis", "in-database", "Mosquitto"}
RESOLVING = {"memory", "Redis", "in-database"}


def evaluate(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the smallest evaluation without the data of Berlin."""
    fixed = ("--size", "smallest", "--data", str(folder / "no-data"), "--out", str(folder))
    command = [sys.executable, "-m", "bench.evaluation", *fixed, *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def figures_in(folder: Path) -> dict[str, Any]:
    """Return what a run measured."""
    return json.loads((folder / "figures" / "evaluation.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def docs(program: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the page of a whole run."""
    program("mosquitto")
    program("postgis-3.so")
    folder = tmp_path_factory.mktemp("evaluation")
    done = evaluate(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def figures(docs: Path) -> dict[str, Any]:
    """What the whole run measured."""
    return figures_in(docs)


def test_every_message_reaches_its_subscriber_in_every_system(figures: dict[str, Any]) -> None:
    sweeps = figures["sweeps"]
    assert {one["system"] for one in sweeps} == IN_THROUGHPUT
    runs = [*(run for one in sweeps for run in one["runs"]), *figures["filtering"]]
    for run in runs:
        assert run["delivered"] == run["expected"] == run["sent"] > 0, run
    systems = {row["system"] for row in figures["filtering"]}
    assert systems == {*COMPARED, "Redis, cold", "amqtt"}


def test_messages_of_the_city_go_to_all_vehicles_that_hold_their_entity(
    figures: dict[str, Any],
) -> None:
    rows = figures["city"]
    assert {row["system"] for row in rows} == COMPARED
    for row in rows:
        assert row["delivered"] == row["expected"] > 0, row
        assert row["rolling"], row


def test_every_change_is_answered(figures: dict[str, Any]) -> None:
    for is_resolved, systems in ((False, COMPARED), (True, RESOLVING)):
        rows = [row for row in figures["adding"] if row["is_resolved"] is is_resolved]
        assert {row["system"] for row in rows} == systems
        assert {row["axis"] for row in rows} == {"subscriptions", "members"}
    assert {row["system"] for row in figures["scope"]} == {"memory", "PostGIS"}
    cities = [row["adding"] for row in figures["city"]]
    for row in [*figures["adding"], *figures["scope"], *cities]:
        assert row["added"] > 0, row
        assert row["missing"] == 0, row


def test_the_load_of_the_generator_is_in_every_row(figures: dict[str, Any]) -> None:
    runs = [run for one in figures["sweeps"] for run in one["runs"]]
    for row in [*runs, *(row for table in TABLES for row in figures[table])]:
        assert row["generator_share"] > 0, row
        assert isinstance(row["generator_is_limit"], bool), row


def test_the_page_says_what_it_is_and_shows_all_plots(docs: Path, repository: Path) -> None:
    page = (docs / "evaluation.md").read_text("utf-8")
    assert "python -m bench.evaluation --size smallest" in page
    assert "*smallest* run" in page
    assert "Monaco, stands in" in page
    assert "$" not in page
    assert str(docs) not in page
    assert "Left out of this run" not in page
    shown = re.findall(r"!\[[^]]*\]\(([^)]+)\)", page)
    assert len(set(shown)) == PLOTS
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


def test_a_run_that_was_stopped_has_a_page_and_can_be_resumed(tmp_path: Path) -> None:
    part = ("--only", "throughput", "--step")
    assert evaluate(tmp_path, *part, "round 1: memory").returncode == 0
    page = (tmp_path / "evaluation.md").read_text("utf-8")
    assert page.count("![") == 1
    assert "Not measured in this run" in page
    # No time is left: each step is named with the reason.
    done = evaluate(tmp_path, *part, "", "--resume", "--minutes", "0")
    assert done.returncode == 1
    left_out = figures_in(tmp_path)["left_out"]
    assert left_out["throughput: round 1: no filter"] == "no time was left"
    assert "- throughput: round 1: no filter: no time was left" in (
        tmp_path / "evaluation.md"
    ).read_text("utf-8")
    evaluate(tmp_path, *part, "round 1: no filter", "--resume")
    found = figures_in(tmp_path)
    assert [one["system"] for one in found["sweeps"]] == ["memory", "memory, cold", "no filter"]
    assert "throughput: round 1: no filter" not in found["left_out"]


def test_a_system_that_fails_does_not_end_the_run(tmp_path: Path) -> None:
    # Nothing can be imported from a world that is not one.
    berlin = tmp_path / "no-data" / "berlin"
    berlin.mkdir(parents=True)
    (berlin / "world.parquet").write_bytes(b"not Parquet")
    done = evaluate(tmp_path, "--step", "memory", "--only", "scope", "--only", "throughput")
    assert done.returncode == 1
    found = figures_in(tmp_path)
    assert [one["system"] for one in found["sweeps"]] == ["memory", "memory, cold"]
    assert len(found["left_out"]) == SCOPES
    assert str(tmp_path) not in (tmp_path / "evaluation.md").read_text("utf-8")
