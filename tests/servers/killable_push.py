"""A push in a process of its own, from Delta to Redis without Spark, made to be killed."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
from multiprocessing.process import BaseProcess
from typing import Any

from deltalake import DeltaTable

from redis_link.connection.client import connect
from redis_link.generation.generation_push import PushSource
from redis_link.generation.local_push import push_pairs
from redis_link.generation.sweep import Retention
from redis_link.sets.pair_arrays import Int64s
from schemas.membership import PEID, SUB_ID, VERSION

# A fresh interpreter for each push would take longer than the push.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])


def pairs_of(table: str, version: int) -> tuple[Int64s, Int64s]:
    """The pairs of a version as the deltalake package reads them."""
    rows = DeltaTable(table).to_pyarrow_table(filters=[(VERSION, "=", version)])
    return rows.column(PEID).to_numpy(), rows.column(SUB_ID).to_numpy()


def start_push(
    table: str, version: int, url: str, dies_at: tuple[str, int] | None = None
) -> tuple[BaseProcess, Any]:
    """The process, and an event that it sets when it begins to push."""
    ready = CONTEXT.Event()
    process = CONTEXT.Process(target=_push, args=(table, version, url, dies_at, ready), daemon=True)
    process.start()
    return process, ready


def _push(table: str, version: int, url: str, dies_at: tuple[str, int] | None, ready: Any) -> None:
    if dies_at is not None:
        arm(*dies_at)
    pairs = pairs_of(table, version)
    client = connect(url)
    ready.set()
    report = push_pairs(client, PushSource(version, "a push to be killed"), [pairs],
                        retention=Retention(grace_seconds=0))  # fmt: skip
    assert report.cleanup is not None
    report.cleanup.wait()


def arm(place: str, call: int) -> None:
    """Let the process kill itself when it comes to a function for the n-th time."""
    module_name, _, name = place.rpartition(".")
    module = importlib.import_module(module_name)
    original = getattr(module, name)
    calls = 0

    def deadly(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **options)

    setattr(module, name, deadly)
