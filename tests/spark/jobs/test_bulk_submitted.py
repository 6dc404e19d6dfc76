"""``spark-submit jobs/resolve_neighborhoods.py`` as it is typed, with nothing behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenes.bulk_scene import bulk_rows, exact_rows_of
from tests.servers.submitted_job import WAIT_SECONDS, submitted
from world.snapshot import load_snapshot

pytestmark = pytest.mark.spark


def test_with_no_argument_it_is_the_sample_in_whatever_folder(
    program: Callable[[str], Path], repository: Path, tmp_path: Path
) -> None:
    program("java")
    folder, log = tmp_path / "anywhere", tmp_path / "log"
    folder.mkdir()
    job = repository / "jobs" / "resolve_neighborhoods.py"
    with submitted([job], log, folder) as process:
        assert process.wait(WAIT_SECONDS) == 0, log.read_text()
    samples = repository / "data" / "sample_subscriptions.jsonl"
    world = load_snapshot(str(folder / "lake" / "world"))
    assert bulk_rows(folder / "lake") == exact_rows_of(samples, world)
    said = log.read_text()
    count = len(samples.read_text("utf-8").splitlines())
    assert f"{count} of {count} subscriptions resolved on world version 1" in said
    assert "Exception" not in said
    assert "Traceback" not in said
