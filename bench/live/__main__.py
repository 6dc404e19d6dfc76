"""The exact resolver beside the PostGIS procedure: ``python -m bench.live`` (make bench-live).

Both give the same rows, or it fails. Both are pinned to a core of their own and timed in turns,
a few references at a time, so that whatever disturbs one disturbs the other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.live.report import (
    AGAIN,
    COLD,
    PARSE,
    POSTGIS,
    POSTGIS_FRONTIER,
    WARMED,
    LiveReport,
    PatternFigures,
)
from schemas.language.descriptor_json import parse_descriptor
from schemas.language.neighborhood import Neighborhood
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver
from testing.neighborhood_patterns import PATTERNS, descriptors
from testing.postgis_peer import PostgisPeer, postgis_peer
from testing.postgis_server import PostgisMissingError
from world.snapshot import load_snapshot

OUT = Path("out")
SEED = 20
# Calls of one kind in a row: a server and a broker both are busy with their own work.
BLOCK = 10


def main() -> int:
    """Run the benchmark; 0 when every aim is reached, 1 when not, 2 when it cannot run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--entities", type=int, default=225_150)
    parser.add_argument("--references", type=int, default=40, help="distinct ones, per pattern")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    try:
        report = run(options.entities, options.references, options.repeats)
    except PostgisMissingError as error:
        print(error, file=sys.stderr)
        return 2
    report.write(OUT)
    print(report.markdown())
    print(f"written to {OUT / 'live.json'} and {OUT / 'live.md'}")
    return 0 if report.reached() else 1


def run(entities: int, references: int, repeats: int) -> LiveReport:
    """Measure everything."""
    load_average = os.getloadavg()[0]
    ours, theirs = _cores()
    rss_start = _rss()
    with tempfile.TemporaryDirectory(prefix="spaps-live-") as folder:
        print(f"drawing a city of {entities:,} entities", flush=True)
        command = [sys.executable, "-m", "bench.live.world", folder, str(entities)]
        subprocess.run(command, check=True)
        snapshot_seconds, _, table = timed(load_snapshot, folder)
    rss_snapshot = _rss()
    index_seconds, _, warmed = timed(ExactResolver, table)
    rss_index = _rss()
    warm_up_seconds = timed(warmed.warm_up)[0]
    rss_warm, memory = _rss(), warmed.memory()
    print("loading PostGIS", flush=True)
    with postgis_peer(table, theirs) as peer:
        os.sched_setaffinity(0, ours)
        patterns = [
            measure(Contest(table, peer, ExactResolver(table), warmed), title, references, repeats)
            for title in PATTERNS
        ]
        postgis = peer.versions()
    return LiveReport(
        command=f"python -m bench.live --entities {entities} --references {references} "
        f"--repeats {repeats}",
        entities=entities,
        postgis=postgis,
        load_average=load_average,
        snapshot_seconds=snapshot_seconds,
        index_seconds=index_seconds,
        warm_up_seconds=warm_up_seconds,
        rss_start=rss_start,
        rss_snapshot=rss_snapshot,
        rss_index=rss_index,
        rss_warm=rss_warm,
        pair_megabytes=memory.pair_bytes / 1e6,
        pairs=memory.pairs,
        patterns=patterns,
    )


@dataclass(frozen=True)
class Contest:
    """The peer, a resolver that forgets before each call, and one that knows all pairs."""

    table: EntityTable
    peer: PostgisPeer
    cold: ExactResolver
    warmed: ExactResolver


def measure(contest: Contest, title: str, references: int, repeats: int) -> PatternFigures:
    """Time one pattern, after a first round that compares all rows and fills the caches."""
    print(f"{title}: {references} references, {repeats} times", flush=True)
    peer, cold = contest.peer, contest.cold
    texts = [json.dumps(each) for each in descriptors(contest.table, title, references, SEED)]
    rows = [_compare(cold, peer, text) for text in texts]
    figures = PatternFigures(title, len(texts), median(rows))
    neighborhoods = [parse_descriptor(text) for text in texts]
    for start in range(0, len(texts) * repeats, BLOCK):
        block = (neighborhoods * repeats)[start : start + BLOCK]
        for state, frontier in ((POSTGIS, False), (POSTGIS_FRONTIER, True)):
            for call in [peer.call_of(neighborhood, frontier) for neighborhood in block]:
                before = peer.cpu_seconds()
                seconds, cpu, _ = timed(peer.rows_of, call)
                figures.add(state, seconds, cpu + peer.cpu_seconds() - before)
        for neighborhood in block:
            # Strictly cold: not even a pair shared with an earlier reference is known.
            cold.forget()
            figures.add(COLD, *timed(_rows, cold, neighborhood)[:2])
            figures.add(AGAIN, *timed(_rows, cold, neighborhood)[:2])
        for neighborhood in block:
            figures.add(WARMED, *timed(_rows, contest.warmed, neighborhood)[:2])
    for text in texts:
        figures.add(PARSE, *timed(parse_descriptor, text)[:2])
    return figures


def _rows(resolver: ExactResolver, neighborhood: Neighborhood) -> Any:
    return resolver.resolve(neighborhood).rows()


def _compare(resolver: ExactResolver, peer: PostgisPeer, text: str) -> int:
    """Return the number of rows that both give; an error when they differ."""
    neighborhood = parse_descriptor(text)
    peids, numbers = resolver.resolve(neighborhood).rows()
    ours = sorted(zip(peids.tolist(), numbers.tolist(), strict=True))
    for frontier in (False, True):
        theirs = sorted(peer.resolve(neighborhood, frontier))
        if ours != theirs:
            raise SystemExit(f"different rows for {text}: {len(ours)} and {len(theirs)}")
    return len(ours)


def timed(work: Callable[..., Any], *arguments: Any) -> tuple[float, float, Any]:
    """Return seconds by the clock, seconds of this process on the processor, and the result."""
    start, cpu_start = time.perf_counter(), time.process_time()
    result = work(*arguments)
    return time.perf_counter() - start, time.process_time() - cpu_start, result


def _cores() -> tuple[set[int], set[int]]:
    """Return a core for the resolver and one for the server, the same where there is no other."""
    cores = sorted(os.sched_getaffinity(0))
    return {cores[0]}, {cores[-1]}


def _rss() -> float:
    """Return resident memory of this process in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    raise SystemExit(main())
