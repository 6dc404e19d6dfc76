"""Queues of passwords to be checked, one for each address, taken in turns.

Checking a password takes CPU time and memory on purpose. With queues by address, one that sends
many logins does not delay those of others. The password of a client that is gone is not checked.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Final

# So many passwords are checked at a time.
CHECKERS: Final = 2


class PasswordOutcome(Enum):
    """The result of a password check, or why there was none."""

    RIGHT = "right"
    WRONG = "wrong"
    GONE = "gone"  # the client left while it waited
    ADDRESS_FULL = "address_full"  # too many of its address wait
    ALL_FULL = "all_full"  # too many wait in all


@dataclass(frozen=True, slots=True)
class _Job:
    check: Callable[[], bool]
    is_gone: Callable[[], bool]
    answer: asyncio.Future[PasswordOutcome]


class PasswordQueue:
    """Has passwords checked in threads, one of each address in turn."""

    def __init__(self, most: int, most_of_address: int) -> None:
        self._most = most
        self._most_of_address = most_of_address
        self._jobs: OrderedDict[str, deque[_Job]] = OrderedDict()
        self._threads = ThreadPoolExecutor(CHECKERS, thread_name_prefix="password")
        self._workers: set[asyncio.Task[None]] = set()
        self._waiting = 0
        self.outcomes: Counter[PasswordOutcome] = Counter(dict.fromkeys(PasswordOutcome, 0))

    async def check(
        self, host: str, check: Callable[[], bool], is_gone: Callable[[], bool]
    ) -> PasswordOutcome:
        """Return the outcome of ``check``, called in a thread when it is this address's turn."""
        outcome = await self._outcome(host, check, is_gone)
        self.outcomes[outcome] += 1
        return outcome

    def close(self) -> None:
        """Check no more passwords."""
        for worker in self._workers:
            worker.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _outcome(
        self, host: str, check: Callable[[], bool], is_gone: Callable[[], bool]
    ) -> PasswordOutcome:
        own = self._jobs.get(host, ())
        if len(own) >= self._most_of_address:
            return PasswordOutcome.ADDRESS_FULL
        if self._waiting >= self._most and not self._make_room(len(own)):
            return PasswordOutcome.ALL_FULL
        answer: asyncio.Future[PasswordOutcome] = asyncio.get_running_loop().create_future()
        self._jobs.setdefault(host, deque()).append(_Job(check, is_gone, answer))
        self._waiting += 1
        if len(self._workers) < CHECKERS:
            worker = asyncio.create_task(self._work(), name="passwords")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        return await answer

    def _make_room(self, own: int) -> bool:
        """Refuse the last job of the address with the most jobs, if these are more than ``own``."""
        jobs = max(self._jobs.values(), key=len, default=())
        if not isinstance(jobs, deque) or len(jobs) <= own + 1:
            return False
        self._waiting -= 1
        job = jobs.pop()
        if not job.answer.done():
            job.answer.set_result(PasswordOutcome.ALL_FULL)
        return True

    def _next(self) -> _Job:
        """Return the next job of the address whose turn it is."""
        host, jobs = self._jobs.popitem(last=False)
        job = jobs.popleft()
        self._waiting -= 1
        if jobs:
            self._jobs[host] = jobs
        return job

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._jobs:
            job = self._next()
            if job.answer.done():  # the login was cancelled
                continue
            if job.is_gone():
                job.answer.set_result(PasswordOutcome.GONE)
                continue
            try:
                is_right = await loop.run_in_executor(self._threads, job.check)
            except Exception as error:  # noqa: BLE001 - raised where the check is awaited
                if not job.answer.done():
                    job.answer.set_exception(error)
                continue
            if not job.answer.done():
                job.answer.set_result(PasswordOutcome.RIGHT if is_right else PasswordOutcome.WRONG)
