"""How far the levels are, told while one job goes through all of them.

Tasks tell how many members they selected. A task that is done again tells the same again, so
what is known is by level and bucket, and never added up twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from pyspark import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from jobs.pipeline.subscriptions.compiled_batch import LevelPlan

Told = dict[tuple[int, int], int]  # by level and bucket: the members
LOOK_SECONDS: Final = 0.1


class _ToldOnce(AccumulatorParam[Told]):
    def zero(self, value: Told) -> Told:
        del value
        return {}

    def addInPlace(self, value1: Told, value2: Told) -> Told:  # noqa: N802 - Spark's name
        value1.update(value2)
        return value1


class LevelProgress:
    """Says when a level is complete; ``counts`` goes to the tasks."""

    def __init__(
        self,
        spark: SparkSession,
        levels: Sequence[LevelPlan],
        buckets: int,
        tell: Callable[[LevelPlan, int, float], None],
    ) -> None:
        self.counts: Accumulator[Told] = spark.sparkContext.accumulator({}, _ToldOnce())
        self._levels = levels
        self._buckets = buckets
        self._tell = tell
        self._ended_at: list[float] = []
        self._started = time.monotonic()
        self._ending = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="level-progress", daemon=True)

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._watcher.join()

    def finish(self, counts: NDArray[np.int64]) -> None:
        """Tell of the levels that nobody was told of yet; ``counts`` are by level."""
        self._ending.set()
        self._watcher.join()
        for plan in self._levels[len(self._ended_at) :]:
            self._complete(plan, int(counts[plan.level]))

    def seconds(self) -> list[float]:
        """What each level took."""
        times = [self._started, *self._ended_at]
        return [later - earlier for earlier, later in pairwise(times)]

    def _watch(self) -> None:
        while not self._ending.wait(LOOK_SECONDS):
            for plan in self._levels[len(self._ended_at) :]:
                told = dict(self.counts.value)
                members = [count for (level, _), count in told.items() if level == plan.level]
                if len(members) < self._buckets:
                    break
                self._complete(plan, sum(members))

    def _complete(self, plan: LevelPlan, members: int) -> None:
        before = self._ended_at[-1] if self._ended_at else self._started
        self._ended_at.append(time.monotonic())
        self._tell(plan, members, self._ended_at[-1] - before)
