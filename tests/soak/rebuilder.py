"""Rebuilds one after the other, killed at random steps and run again until one comes to its end."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable

from tests.soak.records import Event, Records
from tests.soak.servers import Places, start_command

BUSY = 3
# The lock of a killed push lasts for 20 seconds.
MOST_ATTEMPTS = 120
# What a rebuild says on its way is about this many lines.
LINES = 8


class Rebuilder:
    """``rebuild`` and ``rollback`` as an operator would run them."""

    def __init__(
        self, places: Places, records: Records, grace_seconds: float, dice: random.Random,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._places = places
        self._records = records
        self._grace = f"{grace_seconds:g}"
        self._dice = dice
        self._say = say
        self.kills = 0

    async def rebuild(self, edition: int, kills: float, *, is_killed_first: bool = False) -> None:
        """Rebuild from the source; each attempt is killed with this probability, twice at most."""
        begun = time.monotonic()
        arguments = (
            "rebuild",
            str(self._places.source),
            "--engine",
            "exact",
            "--grace",
            self._grace,
        )
        killed = 0
        for _ in range(MOST_ATTEMPTS):
            process = await start_command(self._places, arguments)
            is_sure = is_killed_first and killed == 0
            if is_sure or (killed < 2 and self._dice.random() < kills):
                await process.wait_for_lines(self._dice.randint(0, LINES))
                await asyncio.sleep(self._dice.uniform(0, 0.3))
                if process.kill():
                    killed += 1
                    await process.ended()
                    self._note_kill(edition, process.lines)
                    continue
            code = await process.ended()
            if code == 0:
                self._note(f"rebuild of edition {edition}", begun, killed)
                return
            self._say(f"  exit code {code}: {process.lines[-1:]}")
            now = time.monotonic()
            if code != BUSY and not self._records.during("redis away", begun, now):
                text = f"rebuild of edition {edition}: exit code {code}: {process.lines[-3:]}"
                self._records.events.append(Event("rebuild failed", begun, now, text))
            await asyncio.sleep(1)
        raise RuntimeError(f"edition {edition} was not rebuilt")

    async def rollback(self) -> None:
        """Back to the version before."""
        begun = time.monotonic()
        process = await start_command(self._places, ("rollback", "--grace", self._grace))
        if await process.ended() != 0:
            raise RuntimeError(f"rollback: {process.lines}")
        self._note("rollback", begun, 0)

    def _note(self, what: str, begun: float, killed: int) -> None:
        ended = time.monotonic()
        text = f"{what}, killed {killed} times" if killed else what
        self._records.events.append(Event(what.partition(" ")[0], begun, ended, text))
        self._say(f"{text}: {ended - begun:.1f} s")

    def _note_kill(self, edition: int, lines: list[str]) -> None:
        self.kills += 1
        now = time.monotonic()
        paths = sorted((self._places.folder / "lake" / "rebuilds").glob("*/record.json"))
        steps = list(json.loads(paths[-1].read_text())["steps"]) if paths else []
        text = f"rebuild of edition {edition} killed after {len(lines)} lines, record: {steps}"
        self._records.events.append(Event("rebuild killed", now, now, text))
        self._say(f"  {text}")
