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

from bench.bulk.figures import TREE, Comparison, JobRun
from bench.bulk.submits import earlier_tree, submit
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
    other = earlier_tree() if options.other is None else options.other.resolve()
    with tempfile.TemporaryDirectory(prefix="spaps-turns-") as name:
        folder = (options.folder or Path(name)).resolve()
        print(
            "| subscriptions | rows | other | this | ratio | of core-seconds | other MB | this MB |"
        )
        print("|--:|--:|--:|--:|--:|--:|--:|--:|")
        for count in options.subscriptions:
            draw(folder, options.entities, count)
            print(
                _row(compared(other, folder, options.entities, count, options.rounds)), flush=True
            )
    return 0


def draw(folder: Path, entities: int, count: int) -> Path:
    """Draw a city and its subscriptions, unless they are there; return the subscriptions."""
    world, lines = folder / "world", folder / f"{count}.jsonl"
    if not world.exists():
        drawing = [sys.executable, "-m", "bench.live.world", str(world), str(entities)]
        subprocess.run(drawing, check=True, cwd=TREE)
    if not lines.exists():
        write_subscriptions(lines, load_snapshot(str(world)), count, SEED)
    return lines


def compared(other: Path, folder: Path, entities: int, count: int, rounds: int) -> Comparison:
    """Run both engines in turns; they must write equally many rows."""
    world, out, lines = folder / "world", folder / "out", folder / f"{count}.jsonl"
    runs: tuple[list[JobRun], list[JobRun]] = ([], [])
    for _ in range(rounds):
        for tree, title, own in ((other, "other", runs[0]), (TREE, "this", runs[1])):
            own.append(submit(tree, title, count, lines, world, out, is_first=True))
            print(f"{count:,} subscriptions, {title}: {own[-1].told()} s", file=sys.stderr)
    if len({run.rows for own in runs for run in own}) > 1:
        raise SystemExit(f"{count} subscriptions: the engines have not written equally many rows")
    return Comparison(entities, *(JobRun.joined(own) for own in runs))


def _row(found: Comparison) -> str:
    before, this = found.before, found.this
    return (
        f"| {this.subscriptions:,} | {this.rows:,} | {before.told()} s | {this.told()} s "
        f"| {found.ratio:.2f} | {found.of_core_seconds:.2f} "
        f"| {before.peak_megabytes:,.0f} | {this.peak_megabytes:,.0f} |"
    )


if __name__ == "__main__":
    raise SystemExit(main())
