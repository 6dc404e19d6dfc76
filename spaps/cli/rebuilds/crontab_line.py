"""A line of times as cron reads it, for APScheduler, which counts weekdays from another day."""

from __future__ import annotations

from typing import Final

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger

# Cron's numbers: 0 is Sunday, and so is 7.
DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELDS: Final = 5
ZONE: Final = "UTC"


def crontab_trigger(line: str) -> BaseTrigger:
    """The times of the line in UTC; ValueError where it cannot be read.

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
    """The weekdays of a field by their names, each once."""
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
