"""The bulk job of a tree, as a process of its own in the environment of that tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deltalake import DeltaTable

from bench.bulk.figures import TREE, JobRun
from bench.bulk.session import forget_related
from bench.process_tree import run_watched
from schemas.membership import MEMBERSHIPS_TABLE

# The engine on Spark's RDDs that this one is compared with.
EARLIER_COMMIT: Final = "1a227ed"
EARLIER_TREE: Final = TREE / "out" / f"engine-{EARLIER_COMMIT}"


def earlier_tree() -> Path:
    """Check the earlier commit out, with an environment of its own, unless that has been done."""
    if not (EARLIER_TREE / "bootstrap.py").is_file():
        adding = ["git", "worktree", "add", "--detach", str(EARLIER_TREE), EARLIER_COMMIT]
        subprocess.run(adding, check=True, cwd=TREE)
    subprocess.run([sys.executable, "bootstrap.py"], check=True, cwd=EARLIER_TREE)
    return EARLIER_TREE


def submit(  # noqa: PLR0913  where everything lies
    tree: Path,
    title: str,
    count: int,
    lines: Path,
    world: Path,
    out: Path,
    *,
    is_first: bool,
    settings: Sequence[str] = (),
) -> JobRun:
    """Run the job of a tree; a first run has a world as an import leaves it, and no output."""
    if is_first:
        forget_related(world)
        shutil.rmtree(out, ignore_errors=True)
    programs = tree / ".venv" / "bin"
    command = [
        *("env", f"--chdir={tree}", f"PYTHONPATH={tree}"),
        f"PATH={programs}{os.pathsep}{os.environ['PATH']}",
        str(programs / "spark-submit"), *settings, str(tree / "jobs" / "resolve_neighborhoods.py"),
        "--world", str(world), "--subscriptions", str(lines), "--out", str(out),
    ]  # fmt: skip
    log = TREE / "out" / f"bulk-{title}.log"
    log.parent.mkdir(exist_ok=True)
    finished = run_watched(command, log)
    rows = DeltaTable(str(out / MEMBERSHIPS_TABLE)).to_pyarrow_dataset().count_rows()
    memory, spent = finished.peak_megabytes, finished.core_seconds
    return JobRun(title, count, (finished.seconds,), rows, memory, spent)
