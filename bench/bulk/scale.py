"""What a world of another size takes, out of the log of a measured run.

``python -m bench.bulk.scale LOG --core-seconds N``: LOG is what jobs/resolve_neighborhoods.py
printed, and N the processor time of the run, as bench.bulk.turns measures it. The steps share it
as they share the time of the run. Each step is taken to grow with what it works on, and to be
divided by the cores; docs/scale.md names what that leaves out.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

# docs/decisions/0053-packed-commands-and-packed-shuffle.md, and figures/bulk.md.
BYTES_OF_PAIR_IN_REDIS = 6.0
PUSHED_IN_A_SECOND = 2.0e6
SECONDS_IN_HOUR = 3_600


@dataclass(frozen=True)
class Measured:
    """What a run worked on, and the core-seconds of its steps."""

    entities: int
    pairs: int
    subscriptions: int
    members: int
    rows: int
    seconds: dict[str, float]

    def core_seconds(self, spent: float) -> dict[str, float]:
        """The share of each step in the processor time of the run."""
        total = sum(self.seconds.values())
        return {step: spent * seconds / total for step, seconds in self.seconds.items()}

    def scaled(self, spent: float, entities: int, subscriptions: int) -> dict[str, float]:
        """Core-seconds of each step for another size."""
        world, batch = entities / self.entities, subscriptions / self.subscriptions
        grows_with = {
            "related": world,
            "read": batch,
            "resolve": batch,
            "report": batch,
            "write": batch,
        }
        return {
            step: seconds * grows_with[step] for step, seconds in self.core_seconds(spent).items()
        }


def read_log(text: str) -> Measured:
    """Read the numbers out of the lines of a run."""

    def number(pattern: str) -> int:
        found = re.search(pattern, text)
        if found is None:
            raise SystemExit(f"the log has no line like {pattern!r}: is it that of a whole run?")
        return int(found[1].replace(",", ""))

    steps = re.search(r"^seconds: (.+)$", text, re.MULTILINE)
    if steps is None:
        raise SystemExit("the log has no line 'seconds: …': is it that of a whole run?")
    by_step = (each.split() for each in steps[1].split(", "))
    seconds = {name: float(value) for name, value in by_step}
    members = re.findall(r"^level \d+ of \d+: .* sets, ([\d,]+) members", text, re.MULTILINE)
    return Measured(
        entities=number(r"version \d+: ([\d,]+) entities"),
        pairs=number(r"related pairs: ([\d,]+), "),
        subscriptions=number(r"subscriptions: ([\d,]+) read"),
        members=sum(int(each.replace(",", "")) for each in members),
        rows=number(r"memberships: ([\d,]+) rows"),
        seconds=seconds,
    )


def main() -> int:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("--core-seconds", type=float, required=True)
    parser.add_argument("--entities", type=int, default=500_000_000)
    parser.add_argument("--subscriptions", type=int, default=100_000_000)
    parser.add_argument("--cores", type=int, nargs="+", default=[64, 256, 1024])
    options = parser.parse_args()
    run = read_log(options.log.read_text("utf-8"))
    spent = run.core_seconds(options.core_seconds)
    steps = run.scaled(options.core_seconds, options.entities, options.subscriptions)
    world = options.entities / run.entities
    batch = options.subscriptions / run.subscriptions
    print(f"| | measured | {options.entities:,} entities |")
    print("|---|--:|--:|")
    for what, count, factor in (
        ("entities", run.entities, world),
        ("related pairs", run.pairs, world),
        ("subscriptions", run.subscriptions, batch),
        ("members of sets", run.members, batch),
        ("memberships", run.rows, batch),
    ):
        print(f"| {what} | {count:,} | {count * factor:,.0f} |")
    for step, seconds in steps.items():
        hours = seconds / SECONDS_IN_HOUR
        print(
            f"| {step}, core-seconds | {spent[step]:,.0f} | {seconds:,.0f} ({hours:,.1f} hours) |"
        )
    for cores in options.cores:
        minutes = sum(steps.values()) / cores / 60
        print(f"| on {cores:,} cores that share the work equally | | {minutes:,.0f} minutes |")
    rows = run.rows * batch
    pushing = rows / PUSHED_IN_A_SECOND / SECONDS_IN_HOUR
    print(f"| push at {PUSHED_IN_A_SECOND:,.0f} a second | | {pushing:,.1f} hours |")
    print(f"| Redis | | {rows * BYTES_OF_PAIR_IN_REDIS / 1e9:,.0f} GB |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
