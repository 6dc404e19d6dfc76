"""Progress reports and threads for long work."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Protocol, TypeVar


class Progress(Protocol):
    """Is called repeatedly during a phase; ``total`` is None when it is not known."""

    def __call__(self, phase: str, done: int, total: int | None) -> None:
        """Report that ``done`` of ``total`` steps of the phase are finished."""


def silent(phase: str, done: int, total: int | None) -> None:
    """Report nothing."""


# More threads would only hold more parts in memory: Python code runs in one thread at a time.
THREADS: Final = min(os.cpu_count() or 1, 4)

Part = TypeVar("Part")
Result = TypeVar("Result")


def in_threads(work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
    """Yield the results of ``work`` in the order of the parts; only a few are computed ahead.

    Threads are enough, because the geometry functions of an import release the interpreter's lock.
    """
    with ThreadPoolExecutor(THREADS, "import") as pool:
        begun: deque[Future[Result]] = deque()
        for part in parts:
            begun.append(pool.submit(work, part))
            if len(begun) > THREADS:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
