"""SIGKILL while records are saved, again and again: nothing that was stored is lost or torn."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

from broker.core.journal import Record
from broker.durability.redis_journal import RedisJournal
from tests.servers.journal_writer import BROKER, CLIENTS, LIMITS, PUBLISHER, WAITING
from tests.servers.redis_server import RedisServer, running_redis
from tests.strategies.journal import JournalModel

MODULE = "tests.servers.journal_writer"


def kill_after(url: str, lines: int, repository: Path) -> int:
    """Let a writer run for some steps and kill it in the middle; the last step it confirmed."""
    command = [sys.executable, "-m", MODULE, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=repository) as process:
        assert process.stdout is not None
        for _ in range(lines):
            line = process.stdout.readline()
            assert line, "the writer ended by itself"
        process.kill()
        rest = process.stdout.read().split(b"\n")
    # The last line may be cut off.
    return max([int(line), *(int(one) for one in rest[:-1] if one)])


def load(url: str) -> Sequence[Record]:
    async def run() -> Sequence[Record]:
        journal = RedisJournal(url, BROKER, LIMITS)
        try:
            return await journal.load()
        finally:
            await journal.close()

    return asyncio.run(run())


def last_whole_call(records: Sequence[Record]) -> int:
    """The last call that is stored; every part of the state must agree on it."""
    model = JournalModel(records)
    assert set(model.sessions) == {*CLIENTS, PUBLISHER}
    last = int.from_bytes(model.retained["t"].payload[:8], "big")
    waiting = [*range(last - WAITING + 1, last + 1)]
    for client_id in CLIENTS:
        queue = model.sessions[client_id]["queue"]
        assert sorted(queue) == waiting
        for position, (record, _, _) in queue.items():
            assert int.from_bytes(record.message.payload[:8], "big") == position
    assert sorted(model.sessions[PUBLISHER]["received"]) == waiting
    return last


def test_killed_writers_leave_whole_calls(redis_server: RedisServer, repository: Path) -> None:
    random = Random(20)  # noqa: S311 - where to kill, repeatably
    before = 0
    for _ in range(6):
        confirmed = kill_after(redis_server.url, random.randrange(10, 60), repository)
        stored = last_whole_call(load(redis_server.url))
        assert confirmed > before
        assert stored >= confirmed
        assert stored % 3 == 0, "a step is stored in one piece"
        before = stored


def test_a_killed_redis_with_an_append_only_file_has_it_all(
    tmp_path: Path, repository: Path
) -> None:
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with running_redis(tmp_path, *options) as server:
        confirmed = kill_after(server.url, 40, repository)
        server.kill()
        server.restart()
        assert last_whole_call(load(server.url)) >= confirmed
