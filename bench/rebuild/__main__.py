"""Rebuilds after a change of one per cent, beside full ones: ``python -m bench.rebuild``.

Each rebuild is run as people run it: ``spaps rebuild`` as a process of its own, timed from its
start to its end, import and all, on a Redis with 100,000 registered subscriptions. Every one
imports a source that it has not seen, in which one per cent of the entities is different.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Final

from bench.rebuild.registration import register
from bench.rebuild.report import SPARK_TITLE, RebuildBenchReport, with_section
from bench.rebuild.timed_rebuilds import RebuildBench
from redis_link.connection.client import connect
from redis_link.connection.embedded import EmbeddedRedis
from testing.city_edits import edited_city
from testing.synthetic_city import synthetic_city

OUT: Final = Path("out")
PAGE: Final = Path("docs/figures/rebuild.md")


def main() -> int:
    """Measure, write the report; 0 when the aim is reached, 1 when not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--entities", type=int, default=225_150)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--share", type=float, default=0.01, help="of the entities that change")
    parser.add_argument("--rounds", type=int, default=3, help="incremental rebuilds")
    parser.add_argument("--no-spark", action="store_true", help="leave the full one on Spark out")
    options = parser.parse_args()
    report = run(options)
    OUT.mkdir(exist_ok=True)
    (OUT / "rebuild.json").write_text(report.as_json(), "utf-8")
    # What ``bench.rebuild.on_spark`` has measured stays.
    _, _, on_spark = PAGE.read_text("utf-8").partition(SPARK_TITLE)
    PAGE.write_text(with_section(report.markdown(), on_spark), "utf-8")
    print(report.markdown())
    print(f"written to {OUT / 'rebuild.json'} and {PAGE}")
    return 0 if report.reached() else 1


def run(options: argparse.Namespace) -> RebuildBenchReport:
    """Measure everything in a folder that is gone afterwards."""
    load = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="spaps-rebuild-") as name,
        EmbeddedRedis(Path(name) / "redis") as server,
    ):
        bench = RebuildBench(Path(name), server.url, connect(server.url))
        table = synthetic_city(options.entities)
        register(bench.client, table, options.subscriptions)
        runs = [bench.rebuild("first", table)]
        for _ in range(options.rounds):
            table = edited_city(table, options.share, seed=len(runs))
            runs.append(bench.rebuild("incremental", table))
        incremental = bench.content()
        runs.append(bench.rebuild("same version, in full", None, "--full", "--engine", "exact"))
        same = incremental == bench.content()
        engines = ["exact"] if options.no_spark else ["exact", "spark"]
        for engine in engines:
            table = edited_city(table, options.share, seed=len(runs))
            arguments = ("--full", "--engine", engine)
            runs.append(bench.rebuild(f"full, {engine}", table, *arguments))
    return RebuildBenchReport(
        entities=options.entities, subscriptions=options.subscriptions, share=options.share,
        load_average=load, same_content=same, runs=tuple(runs),
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
