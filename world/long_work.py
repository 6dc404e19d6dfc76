"""Long work: it tells what it is at, and it runs in several threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Protocol, TypeVar


class Progress(Protocol):
    """Called again and again while a phase goes on; ``total`` is None when it is not known."""

    def __call__(self, phase: str, done: int, total: int | None) -> None:
        """Say that ``done`` of ``total`` steps of the phase are finished."""


def silent(phase: str, done: int, total: int | None) -> None:
    """Show nothing: the progress of work that nobody watches."""


# More would only hold more parts in memory: what Python itself does still runs one at a time.
THREADS: Final = min(os.cpu_count() or 1, 4)

Part = TypeVar("Part")
Result = TypeVar("Result")


def in_threads(work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
    """Yield the results of ``work`` in the order of the parts; only a few are taken ahead.

    Geometry holds no lock of Python, so threads are enough.
    """
    with ThreadPoolExecutor(THREADS, "import") as pool:
        begun: deque[Future[Result]] = deque()
        for part in parts:
            begun.append(pool.submit(work, part))
            if len(begun) > THREADS:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
