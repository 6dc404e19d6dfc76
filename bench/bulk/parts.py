"""The parts of the bulk benchmark: what each of them runs."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.bulk.figures import TREE, Comparison, JobRun, PeerSample, PushFigures, Spread
from bench.bulk.redis_push import measure
from bench.bulk.steps import steps_of_log
from bench.bulk.submits import earlier_tree, submit
from bench.bulk.turns import SEED, compared, draw
from bench.process_tree import run_watched
from schemas.language.descriptor_json import parse_descriptor
from testing.mixed_subscriptions import mixed_descriptors, write_subscriptions
from testing.postgis_peer import postgis_peer
from world.snapshot import load_snapshot

OUT: Final = TREE / "out"
CITY: Final = 225_150
TEN_CITIES: Final = 2_251_500
COUNTRY: Final = 10_000_000
FEW, MANY, MOST = 10_000, 100_000, 1_000_000
OTHER_SEED: Final = 8
POSTGIS_SAMPLE: Final = 200
PUSHED_ENTITIES: Final = 100_000
# Two executors of one core, which know of each other by the network alone.
EXECUTORS: Final = ("--master", "local-cluster[2,1,3072]", "--executor-memory", "2g")


class Parts:
    """Measures in a folder, in which worlds and subscriptions stay."""

    def __init__(self, folder: Path, rounds: int) -> None:
        self._folder = folder
        self._rounds = rounds

    def city(self) -> Iterator[Comparison]:
        """A city with three batches."""
        yield from (self._turns(CITY, count, self._rounds) for count in (FEW, MANY, MOST))

    def cities(self) -> Iterator[Comparison]:
        """Ten cities with a large batch."""
        yield self._turns(TEN_CITIES, MOST, 1)

    def country(self) -> Iterator[Comparison]:
        """A country."""
        yield self._turns(COUNTRY, MANY, 1)

    def again(self) -> Iterator[JobRun]:
        """The same subscriptions again: their pairs and sets are kept."""
        lines = draw(self._at(CITY), CITY, FEW)
        world, out = self._at(CITY) / "world", self._at(CITY) / "out"
        submit(TREE, "first", FEW, lines, world, out, is_first=True)
        again = [
            submit(TREE, "again", FEW, lines, world, out, is_first=False)
            for _ in range(self._rounds)
        ]
        yield JobRun.joined(again)

    def spread(self) -> Iterator[Spread]:
        """One process with two cores beside two executors with one core, and the tasks of both."""
        lines = draw(self._at(TEN_CITIES), TEN_CITIES, MOST)
        world, out = self._at(TEN_CITIES) / "world", self._at(TEN_CITIES) / "out"
        events = OUT / "events"
        shutil.rmtree(events, ignore_errors=True)
        events.mkdir(parents=True)
        logged = [
            *("--conf", "spark.eventLog.enabled=true", "--conf", f"spark.eventLog.dir={events}"),
            *("--conf", "spark.eventLog.compress=false"),
            *("--conf", "spark.eventLog.rolling.enabled=false"),
        ]
        runs = {
            title: submit(
                TREE, title, MOST, lines, world, out, is_first=True, settings=[*master, *logged]
            )
            for title, master in (("local", ("--master", "local[2]")), ("executors", EXECUTORS))
        }
        [local] = events.glob("local-*")
        yield Spread(TEN_CITIES, runs["local"], runs["executors"], steps_of_log(local))

    def postgis(self) -> Iterator[PeerSample]:
        """PostGIS: a sample of the very subscriptions that the first run resolves, one by one."""
        draw(self._at(CITY), CITY, FEW)
        table = load_snapshot(str(self._at(CITY) / "world"))
        descriptors = list(mixed_descriptors(table, FEW, SEED))
        # A whole number of turns through the patterns, spread over the file.
        step = FEW // POSTGIS_SAMPLE // 4 * 4 + 1
        every = [parse_descriptor(json.dumps(each)) for each in descriptors[::step]]
        chosen = every[:POSTGIS_SAMPLE]
        with postgis_peer(table) as peer:
            seconds: dict[bool, float] = {}
            rows = 0
            # As the original design has it, and tuned: repeated stages join the last members only.
            for frontier in (False, True):
                calls = [peer.call_of(neighborhood, frontier=frontier) for neighborhood in chosen]
                for call in calls[:20]:
                    peer.rows_of(call)
                start = time.perf_counter()
                rows = sum(len(peer.rows_of(call)) for call in calls)
                seconds[frontier] = time.perf_counter() - start
            yield PeerSample(peer.versions(), len(chosen), seconds[False], seconds[True], rows)

    def session(self) -> Iterator[JobRun]:
        """The same runs in one session that has been warmed up: medians of some rounds."""
        folder = self._at(CITY)
        few, many = draw(folder, CITY, FEW), draw(folder, CITY, MANY)
        other = folder / "other.jsonl"
        write_subscriptions(other, load_snapshot(str(folder / "world")), FEW, OTHER_SEED)
        programs = Path(sys.executable).parent
        # spark-submit looks for its Spark with the first python3 on the PATH.
        command = [
            *("env", f"PATH={programs}{os.pathsep}{os.environ['PATH']}", f"PYTHONPATH={TREE}"),
            str(programs / "spark-submit"), str(TREE / "bench/bulk/session.py"),
            *("--world", str(folder / "world"), "--few", str(few), "--other", str(other)),
            *("--many", str(many), "--out", str(folder / "out")),
        ]  # fmt: skip
        finished = run_watched(command, OUT / "bulk-session.log")
        lines = [line for line in finished.output.splitlines() if line.startswith("{")]
        by_title: dict[str, list[dict[str, Any]]] = {}
        for run in map(json.loads, lines):
            by_title.setdefault(run["title"], []).append(run)
        del by_title["warming up"]
        for title, runs in by_title.items():
            count = MANY if title == "large" else FEW
            yield JobRun.of_rounds(title, count, runs, finished.peak_megabytes)

    def push(self, pairs: int, rounds: int) -> Iterator[PushFigures]:
        """The push on Spark and the plain pipeline in turns."""
        found = measure(pairs, PUSHED_ENTITIES, rounds, with_spark=True)
        yield PushFigures(
            found.pairs, median(found.spark), median(found.plain), found.bytes_per_pair or 0.0
        )

    def _at(self, entities: int) -> Path:
        return self._folder / str(entities)

    def _turns(self, entities: int, count: int, rounds: int) -> Comparison:
        folder = self._at(entities)
        folder.mkdir(parents=True, exist_ok=True)
        draw(folder, entities, count)
        return compared(earlier_tree(), folder, entities, count, rounds)
