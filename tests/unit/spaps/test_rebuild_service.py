"""Rebuilds by the clock: never two at once, and an end that waits."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime, timedelta

import pytest
from apscheduler.triggers.interval import IntervalTrigger

from schemas.errors import SettingsError
from spaps.cli.rebuild_schedule import own_arguments, run_once, run_schedule, trigger_of

WAIT_SECONDS = 120


def test_the_schedule_is_taken_out_of_the_command() -> None:
    assert own_arguments(["rebuild", "a.osm", "--cron", "0 3 * * *", "--full"]) == [
        "rebuild",
        "a.osm",
        "--full",
    ]
    assert own_arguments(["rebuild", "--cron=0 3 * * *"]) == ["rebuild"]


MONDAY = datetime(2024, 7, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("30 3 * * *", ["07-02 03:30", "07-03 03:30"]),
        ("0 3 * * 0", ["07-07 03:00", "07-14 03:00"]),
        ("0 3 * * 7", ["07-07 03:00", "07-14 03:00"]),
        ("0 3 * * 1", ["07-08 03:00", "07-15 03:00"]),
        ("0 3 * * 5-7", ["07-05 03:00", "07-06 03:00", "07-07 03:00", "07-12 03:00"]),
        ("0 3 * * fri-sun", ["07-05 03:00", "07-06 03:00", "07-07 03:00", "07-12 03:00"]),
        ("0 3 * * 0,3", ["07-03 03:00", "07-07 03:00", "07-10 03:00"]),
        ("0 3 * * */3", ["07-03 03:00", "07-06 03:00", "07-07 03:00", "07-10 03:00"]),
        # Either of both, as in cron: the tenth, or a Sunday.
        ("0 3 10 * 0", ["07-07 03:00", "07-10 03:00", "07-14 03:00"]),
        ("*/20 13 * * *", ["07-01 13:00", "07-01 13:20", "07-01 13:40", "07-02 13:00"]),
    ],
)
def test_times_are_those_of_a_crontab_in_utc(line: str, times: list[str]) -> None:
    trigger = trigger_of(line)
    found: list[str] = []
    last, now = None, MONDAY
    while len(found) < len(times):
        last = trigger.get_next_fire_time(last, now)
        now = last + timedelta(seconds=1)
        found.append(last.strftime("%m-%d %H:%M"))
    assert found == times
    assert last is not None
    assert last.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "line", ["every night", "0 3 * * 8", "0 3 * * 4-2", "0 3 * * */0", "61 * * * *"]
)
def test_a_line_that_is_no_crontab_is_refused(line: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(line)):
        trigger_of(line)


def test_rebuilds_do_not_overlap_and_the_last_is_waited_for() -> None:
    running = threading.Lock()
    overlapped = threading.Event()
    begun, may_end, ending, ended = (threading.Event() for _ in range(4))
    calls: list[str] = []

    def rebuild() -> None:
        if not running.acquire(blocking=False):
            overlapped.set()
            return
        begun.set()
        may_end.wait(WAIT_SECONDS)
        calls.append("done")
        running.release()

    def serve() -> None:
        run_schedule(IntervalTrigger(seconds=0.02), rebuild, ending)
        ended.set()

    thread = threading.Thread(target=serve)
    thread.start()
    assert begun.wait(WAIT_SECONDS)
    ending.set()
    # Many times are due by now; the end must wait for the one that runs, and start no other.
    assert not ended.wait(0.5)
    may_end.set()
    thread.join(WAIT_SECONDS)
    assert ended.is_set()
    assert calls == ["done"]
    assert not overlapped.is_set()


def test_one_rebuild_is_a_process_with_an_exit_code() -> None:
    assert run_once(["rebuild", "--engine", "magic", "/nowhere.parquet"]) == 2
