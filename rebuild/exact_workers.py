"""Resolves distinct neighborhoods exactly, in this process or in several."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Final

import numpy as np

from schemas.errors import DescriptorError, NoReferenceError, WorldError
from schemas.language.neighborhood import Neighborhood
from spatial_udfs.entity_table import EntityTable, Int64s
from spatial_udfs.exact.exact_resolver import ExactResolver
from spatial_udfs.incremental.member_rows import NO_ROWS, MemberRows
from world.snapshot import load_snapshot

SETS_IN_TASK: Final = 100
# With fewer tasks, starting processes and loading the world in each costs more than it saves.
WORTH_PROCESSES: Final = 100

Numbered = tuple[int, Neighborhood]


@dataclass(frozen=True, slots=True, eq=False)
class ExactPart:
    """The rows of some sets, and the numbers of the sets without an existing reference."""

    rows: MemberRows
    unresolved: tuple[int, ...]
    done: int


@dataclass(frozen=True, slots=True, eq=False)
class WorldPlace:
    """A version in memory, and where another process can load it."""

    world: str
    version: int
    table: EntityTable


class ExactWorkers:
    """Resolves in several processes where there is enough to do, else in this one."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def resolve(
        self,
        place: WorldPlace,
        sets: Sequence[Numbered],
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> ExactPart:
        """Return all stages of the neighborhoods, by the numbers of their sets."""
        # Neighborhoods of one reference stand together: they ask for the same pairs.
        ordered = sorted(sets, key=lambda numbered: (numbered[1].refs, numbered[0]))
        tasks = [ordered[at : at + SETS_IN_TASK] for at in range(0, len(ordered), SETS_IN_TASK)]
        parts = []
        done = 0
        for part in self._parts(place, tasks):
            parts.append(part)
            done += part.done
            progress(done, len(ordered))
        unresolved = sorted(number for part in parts for number in part.unresolved)
        return ExactPart(MemberRows.joined([part.rows for part in parts]), tuple(unresolved), done)

    def _parts(self, place: WorldPlace, tasks: Sequence[Sequence[Numbered]]) -> Iterator[ExactPart]:
        if not tasks:
            return
        if self._workers <= 1 or len(tasks) < WORTH_PROCESSES:
            resolver = ExactResolver(place.table)
            for task in tasks:
                yield _resolved(resolver, task)
            return
        with ProcessPoolExecutor(
            max_workers=self._workers,
            # A fresh interpreter: this process has threads, and a fork would copy their locks.
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(place.world, place.version),
        ) as pool:
            futures: list[Future[ExactPart]] = [pool.submit(_work, task) for task in tasks]
            try:
                for future in as_completed(futures):
                    yield future.result()
            except BrokenProcessPool as error:
                raise WorldError("a process that resolves neighborhoods died") from error


_own: list[ExactResolver] = []


def _begin(world: str, version: int) -> None:
    """Load the version in a new process, and end that process with its parent."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        ended = parent.sentinel
        threading.Thread(target=_follow_to_the_end, args=(ended,), daemon=True).start()
    _own.append(ExactResolver(load_snapshot(world, version)))


def _follow_to_the_end(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _work(task: Sequence[Numbered]) -> ExactPart:
    return _resolved(_own[0], task)


def _resolved(resolver: ExactResolver, task: Sequence[Numbered]) -> ExactPart:
    found: list[tuple[int, int, bool, Int64s]] = []
    unresolved = []
    for number, neighborhood in task:
        try:
            resolution = resolver.resolve(neighborhood)
        except (DescriptorError, NoReferenceError):
            unresolved.append(number)
            continue
        for stage, peids in enumerate(resolution.stages, start=1):
            found.append((number, stage, resolution.visible[stage - 1], peids))
    if not found:
        return ExactPart(NO_ROWS, tuple(unresolved), len(task))
    numbers, stages, shown, members = zip(*found, strict=True)
    lengths = [len(peids) for peids in members]
    rows = MemberRows(
        np.repeat(np.array(numbers, np.int32), lengths),
        np.repeat(np.array(stages, np.int32), lengths),
        np.repeat(np.array(shown, np.bool_), lengths),
        np.concatenate(members),
    )
    return ExactPart(rows, tuple(unresolved), len(task))
