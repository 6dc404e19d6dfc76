"""``spaps rebuild --cron``: a process that starts rebuilds at the times of a crontab line.

Each rebuild is a process of its own, so that its memory is free afterwards and a failure does not
affect the next one. The service never kills a rebuild; it waits.
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
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger

from schemas.errors import SettingsError

log = logging.getLogger(__name__)

# A rebuild that was missed because the machine slept is started up to this much later.
LATE_SECONDS: Final = 3600
ONE_COMMAND: Final = "from spaps.cli.command_line import main; main()"
# Cron's numbers: 0 is Sunday, and so is 7. APScheduler counts from Monday.
DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELDS: Final = 5
ZONE: Final = "UTC"
STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


def own_arguments(arguments: Sequence[str] | None = None) -> list[str]:
    """Return the arguments of a single rebuild: those of this process without ``--cron``."""
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
    """Rebuild at these times until SIGTERM or SIGINT; then wait for a rebuild that runs."""
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
    """Return the times of ``--cron``, or raise an error that a user understands."""
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
    """Run one rebuild in a process of its own and return its exit code."""
    command = [sys.executable, "-P", "-c", ONE_COMMAND, *arguments]
    log.info("rebuild starts")
    # A session of its own: Ctrl-C is meant for the service, which waits for the rebuild.
    code = subprocess.run(command, check=False, start_new_session=True).returncode  # noqa: S603 - ourselves
    log.log(logging.INFO if code == 0 else logging.ERROR, "rebuild ended with exit code %d", code)
    return code


def crontab_trigger(line: str) -> BaseTrigger:
    """Return the times of a crontab line in UTC; raise ValueError when it cannot be read.

    Where both the day of the month and the weekday are given, either is enough, as in cron.
    """
    fields = line.split()
    if len(fields) != FIELDS:
        raise ValueError(f"has {len(fields)} fields instead of minute, hour, day, month, weekday")
    minute, hour, day, month, weekday = fields
    times = {"minute": minute, "hour": hour, "month": month, "timezone": ZONE}
    if weekday.startswith("*") or day.startswith("*"):
        return CronTrigger(day=day, day_of_week=_weekdays(weekday), **times)
    return OrTrigger(
        [CronTrigger(day=day, **times), CronTrigger(day_of_week=_weekdays(weekday), **times)]
    )


def _weekdays(field: str) -> str:
    """Return the weekdays of a field by their names, each once."""
    chosen = {number % len(DAYS) for part in field.lower().split(",") for number in _range(part)}
    return ",".join(DAYS[number] for number in sorted(chosen))


def _range(part: str) -> range:
    body, stepped, step = part.partition("/")
    first, ranged, last = body.partition("-")
    if body == "*":
        begin, end = 0, len(DAYS) - 1
    else:
        begin = _number(first)
        end = _number(last) if ranged else (len(DAYS) - 1 if stepped else begin)
        # A week that ends with Sunday: 5-0, fri-sun.
        end = len(DAYS) if ranged and end == 0 < begin else end
    if begin > end:
        raise ValueError(f"weekday {part!r} begins after its end")
    width = int(step) if stepped else 1
    if width < 1:
        raise ValueError(f"weekday {part!r} has no step of 1 or more")
    return range(begin, end + 1, width)


def _number(word: str) -> int:
    if word in DAYS:
        return DAYS.index(word)
    if word.isdecimal() and int(word) <= len(DAYS):
        return int(word)
    raise ValueError(f"weekday {word!r} is none of 0 to 7 and sun to sat")
