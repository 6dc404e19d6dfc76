"""The bulk job of this tree and of another, in turns: ``python -m bench.bulk.turns``.

The other one is the engine of commit 1a227ed, or that of a checkout with an environment of its
own (``--other DIR``). Other programs slow both down alike, so the ratio of runs that follow each
other counts. Each run is a first one: on a world without related pairs, as an import leaves it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench.bulk.submits import TREE, earlier_tree, submit
from testing.mixed_subscriptions import write_subscriptions
from world.snapshot import load_snapshot

SEED = 7


def main() -> int:
    """Print a row of a Markdown table for each number of subscriptions."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--other", type=Path, help="a checkout of another commit")
    parser.add_argument("--entities", type=int, default=225_150)
    parser.add_argument("--subscriptions", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the world is, or is drawn to, and stays")
    options = parser.parse_args()
    other = options.other or earlier_tree()
    with tempfile.TemporaryDirectory(prefix="spaps-turns-") as name:
        folder = options.folder or Path(name)
        world = folder / "world"
        if not world.exists():
            drawing = [sys.executable, "-m", "bench.live.world", str(world), str(options.entities)]
            subprocess.run(drawing, check=True)
        print(
            "| subscriptions | rows | other | this | ratio | of core-seconds | other MB | this MB |"
        )
        print("|--:|--:|--:|--:|--:|--:|--:|--:|")
        for count in options.subscriptions:
            lines = folder / f"{count}.jsonl"
            if not lines.exists():
                write_subscriptions(lines, load_snapshot(str(world)), count, SEED)
            print(_row(options.rounds, other, count, lines, folder), flush=True)
    return 0


def _row(rounds: int, other: Path, count: int, lines: Path, folder: Path) -> str:
    world, out = folder / "world", folder / "out"
    runs = [
        [
            submit(tree, title, count, lines, world, out, is_first=True)
            for tree, title in ((other, "other"), (TREE, "this"))
        ]
        for _ in range(rounds)
    ]
    others, own = ([pair[at] for pair in runs] for at in (0, 1))
    if {run.rows for run in others} != {run.rows for run in own}:
        raise SystemExit(f"{count} subscriptions: the engines have not written equally many rows")
    ratio = median(this.seconds / before.seconds for before, this in runs)
    spent = median(this.core_seconds / before.core_seconds for before, this in runs)
    return (
        f"| {count:,} | {own[0].rows:,} | {median(run.seconds for run in others):.1f} s "
        f"| {median(run.seconds for run in own):.1f} s | {ratio:.2f} | {spent:.2f} "
        f"| {median(run.peak_megabytes for run in others):,.0f} "
        f"| {median(run.peak_megabytes for run in own):,.0f} |"
    )


if __name__ == "__main__":
    raise SystemExit(main())
