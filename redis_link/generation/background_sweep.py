"""The sweep after a switch: waits until readers have changed over, beside whatever else runs."""

from __future__ import annotations

import threading
from typing import Final

from redis_link.connection.client import RedisClient
from redis_link.generation.sweep import Retention, sweep_generations
from schemas.errors import SpapsError

# Late enough to be past the grace time in spite of rounding.
MARGIN_SECONDS: Final = 0.05


class BackgroundSweep:
    """Removes what was replaced, when the grace time is over.

    The thread ends with the process: who does not wait for it leaves the work to the next push
    or to a broker.
    """

    def __init__(self, client: RedisClient, retention: Retention) -> None:
        self._client = client
        self._retention = retention
        self._removed: list[int] = []
        self._error: SpapsError | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether something is still to be removed."""
        return self._thread.is_alive()

    def wait(self) -> tuple[int, ...]:
        """Wait for the end; the generations that were removed."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return tuple(self._removed)

    def cancel(self) -> None:
        """Leave the rest to somebody else."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                report = sweep_generations(self._client, self._retention)
                self._removed += report.removed
                if report.wait_seconds is None:
                    return
                self._ending.wait(report.wait_seconds + MARGIN_SECONDS)
        except SpapsError as error:
            self._error = error
