"""Rebuilds by the clock: a process that stays, and starts one rebuild after the other.

Each rebuild is a process of its own: what it needs in memory is gone with it, and whatever
becomes of it, the next one starts fresh. The service never kills one; it waits.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from schemas.errors import SettingsError
from spaps.cli.rebuilds.crontab_line import crontab_trigger

log = logging.getLogger(__name__)

# One that was missed because the machine slept is made up for within this time.
LATE_SECONDS: Final = 3600
ONE_COMMAND: Final = "from spaps.cli.command_line import main; main()"
STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


def own_arguments(arguments: Sequence[str] | None = None) -> list[str]:
    """The command line of a single rebuild: ours, without the schedule."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    kept: list[str] = []
    while given:
        word = given.pop(0)
        if word == "--cron":
            given[:1] = []
        elif not word.startswith("--cron="):
            kept.append(word)
    return kept


def serve(cron: str, arguments: Sequence[str]) -> int:
    """Rebuild at these times until SIGTERM or SIGINT, then end after the one that runs."""
    ending = threading.Event()

    def end(*_: object) -> None:
        # In a thread: the signal may come while this one holds the lock of the event in wait().
        threading.Thread(target=ending.set).start()

    before = {each: signal.signal(each, end) for each in STOPPING}
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("apscheduler").setLevel(logging.WARNING)
    try:
        run_schedule(trigger_of(cron), lambda: run_once(arguments), ending)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    return 0


def trigger_of(cron: str) -> BaseTrigger:
    """The times of a crontab line with five fields, in UTC."""
    try:
        return crontab_trigger(cron)
    except ValueError as error:
        raise SettingsError(f"--cron {cron!r}: {error}") from error


def run_schedule(
    trigger: BaseTrigger, rebuild: Callable[[], object], ending: threading.Event
) -> None:
    """Call ``rebuild`` by the trigger, never twice at once, until ``ending`` is set."""
    scheduler = BackgroundScheduler(timezone="UTC")
    job = scheduler.add_job(
        rebuild, trigger, max_instances=1, coalesce=True, misfire_grace_time=LATE_SECONDS
    )
    scheduler.start()
    log.info("rebuilds by schedule; the next at %s", job.next_run_time)
    ending.wait()
    log.info("ending; a rebuild that runs is waited for")
    scheduler.shutdown(wait=True)


def run_once(arguments: Sequence[str]) -> int:
    """One rebuild in a process of its own; its exit code."""
    command = [sys.executable, "-P", "-c", ONE_COMMAND, *arguments]
    log.info("rebuild starts")
    # A session of its own: Ctrl-C is meant for the service, which waits for the rebuild.
    code = subprocess.run(command, check=False, start_new_session=True).returncode  # noqa: S603 - ourselves
    log.log(logging.INFO if code == 0 else logging.ERROR, "rebuild ended with exit code %d", code)
    return code
