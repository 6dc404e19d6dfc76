"""Rebuilds on Spark after small changes, beside full ones: ``python -m bench.rebuild.on_spark``.

The change is all over the city, or in one place as real ones are. The section of the page that
these runs make is replaced, and the rest of the page stays.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Final

from bench.rebuild.registration import register
from bench.rebuild.report import SPARK_TITLE, TimedRebuild, table_of_runs, with_section
from bench.rebuild.timed_rebuilds import RebuildBench
from redis_link.connection.client import connect
from redis_link.connection.embedded import EmbeddedRedis
from testing.city_edits import edited_city
from testing.synthetic_city import synthetic_city

PAGE: Final = Path("docs/figures/rebuild.md")
SPARK: Final = ("--engine", "spark")


def main() -> int:
    """Measure and write the section; 1 when the incremental rebuild gives other members."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--entities", type=int, default=225_150)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--share", type=float, default=0.01, help="of the entities that change")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    runs, is_same = run(options)
    section = "\n".join(_section(options, runs, load, is_same=is_same))
    page, _, _ = PAGE.read_text("utf-8").partition(f"\n{SPARK_TITLE}")
    PAGE.write_text(with_section(page, section), "utf-8")
    print(section)
    return 0 if is_same else 1


def run(options: argparse.Namespace) -> tuple[list[TimedRebuild], bool]:
    """Measure in a folder that is gone afterwards; also whether the members are the right ones."""
    runs: list[TimedRebuild] = []
    with (
        tempfile.TemporaryDirectory(prefix="spaps-rebuild-") as name,
        EmbeddedRedis(Path(name) / "redis") as server,
    ):
        bench = RebuildBench(Path(name), server.url, connect(server.url))
        table = synthetic_city(options.entities)
        register(bench.client, table, options.subscriptions)
        runs.append(bench.rebuild("first", table, *SPARK))
        for where, in_one_place in (("all over", False), ("in one place", True)):
            for title, full in (("full", ("--full",)), ("incremental", ())):
                table = edited_city(table, options.share, seed=len(runs), in_one_place=in_one_place)
                runs.append(bench.rebuild(f"{title}, {where}", table, *SPARK, *full))
                print(table_of_runs(runs)[-1], flush=True)
        found = bench.content()
        bench.rebuild("the same version by one process", None, "--full", "--engine", "exact")
        is_same = found == bench.content()
    return runs, is_same


def _section(
    options: argparse.Namespace, runs: list[TimedRebuild], load: float, *, is_same: bool
) -> list[str]:
    same = "the same members as" if is_same else "OTHER MEMBERS THAN"
    return [
        f" ({options.entities:,} entities, {options.subscriptions:,} subscriptions)",
        "",
        f"Made by `python -m bench.rebuild.on_spark`. {options.share:.0%} of the entities change",
        "before each rebuild: all over the city, or every second one around a place. Every process",
        "starts Spark.",
        "",
        *table_of_runs(runs),
        "",
        f"- after the last one Redis and, row by row, Delta hold {same} one process finds on the",
        "  same version",
        f"- load average at the start {load:.1f} on two cores",
        "",
    ]


if __name__ == "__main__":
    raise SystemExit(main())
