"""The bulk job of this tree and of another, in turns: ``python -m bench.bulk.turns --other DIR``.

Other programs slow both down alike, so the ratio of runs that follow each other counts. Each run is
a first one: on a world without related pairs, as an import leaves it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench.bulk.session import forget_related
from bench.process_tree import run_watched
from testing.mixed_subscriptions import write_subscriptions
from world.snapshot import load_snapshot

SEED = 7
TREE = Path(__file__).resolve().parents[2]


def main() -> int:
    """Print a row of a Markdown table for each number of subscriptions."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--other", type=Path, required=True, help="a checkout of another commit")
    parser.add_argument("--entities", type=int, default=225_150)
    parser.add_argument("--subscriptions", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spaps-turns-") as name:
        folder = Path(name)
        drawing = [sys.executable, "-m", "bench.live.world", str(folder / "world")]
        subprocess.run([*drawing, str(options.entities)], check=True)
        table = load_snapshot(str(folder / "world"))
        print("| subscriptions | other | this | ratio | other MB | this MB |")
        print("|--:|--:|--:|--:|--:|--:|")
        for count in options.subscriptions:
            lines = folder / f"{count}.jsonl"
            write_subscriptions(lines, table, count, SEED)
            runs: list[tuple[float, ...]] = []
            for _ in range(options.rounds):
                other = _resolved(options.other, folder, lines)
                this = _resolved(TREE, folder, lines)
                runs.append((other[0], this[0], this[0] / other[0], other[1], this[1]))
            seconds, own, ratio, memory, own_memory = (
                median(each) for each in zip(*runs, strict=True)
            )
            print(
                f"| {count:,} | {seconds:.1f} s | {own:.1f} s | {ratio:.2f} "
                f"| {memory:,.0f} | {own_memory:,.0f} |",
                flush=True,
            )
    return 0


def _resolved(tree: Path, folder: Path, lines: Path) -> tuple[float, float]:
    """Seconds and megabytes of one run of the job of a tree."""
    world, out = folder / "world", folder / "out"
    forget_related(world)
    shutil.rmtree(out, ignore_errors=True)
    programs = Path(sys.executable).parent
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(tree),
    }  # fmt: skip
    os.environ.update(environment)
    command = [
        str(programs / "spark-submit"), str(tree / "jobs" / "resolve_neighborhoods.py"),
        "--world", str(world), "--subscriptions", str(lines), "--out", str(out),
    ]  # fmt: skip
    finished = run_watched(command, folder / "log")
    return finished.seconds, float(finished.peak_megabytes)


if __name__ == "__main__":
    raise SystemExit(main())
