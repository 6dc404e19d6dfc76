"""Rebuilds by the clock: never two at once, and an end that waits."""

from __future__ import annotations

import threading

import pytest
from apscheduler.triggers.interval import IntervalTrigger

from schemas.errors import SettingsError
from spaps.rebuild_service import own_arguments, run_once, run_schedule, trigger_of

WAIT_SECONDS = 120


def test_the_schedule_is_taken_out_of_the_command() -> None:
    assert own_arguments(["rebuild", "a.osm", "--cron", "0 3 * * *", "--full"]) == [
        "rebuild",
        "a.osm",
        "--full",
    ]
    assert own_arguments(["rebuild", "--cron=0 3 * * *"]) == ["rebuild"]


def test_times_are_those_of_a_crontab_in_utc() -> None:
    assert str(trigger_of("30 3 * * 0").timezone) == "UTC"
    with pytest.raises(SettingsError, match="every night"):
        trigger_of("every night")


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
