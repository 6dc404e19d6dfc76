"""Which keys are looked up together, and which are not looked up at all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from broker.resolver.search_process import MOST_CHARACTERS, KeyLookUps
from schemas.entity import MAX_KEY_CHARACTERS


class Process:
    """Finds every key, and notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Sequence[str]] = []

    async def ask(self, parameters: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        self.asked.append(parameters["key"])
        await asyncio.sleep(0)
        return {"peids": dict.fromkeys(parameters["key"], 1)}


def look_ups() -> tuple[KeyLookUps, list[Sequence[str]]]:
    made = KeyLookUps("nowhere", lambda: 1)
    process = Process()
    made._process = process  # type: ignore[assignment]
    return made, process.asked


def test_a_key_that_no_entity_can_have_is_not_looked_up() -> None:
    """Topics have room for keys of 65 kB, of which a frame would have 390 kB."""

    async def scenario() -> None:
        keys, asked = look_ups()
        longest = "k" * MAX_KEY_CHARACTERS
        assert await keys.find(["\x01" * 60_000, "k" + longest, "\x1b"]) == {}
        assert asked == []
        assert await keys.find(["\x01", longest, "k" + longest]) == {longest: 1}
        assert asked == [[longest]]

    asyncio.run(scenario())


def test_a_question_is_bounded_however_many_ask() -> None:
    async def scenario() -> None:
        keys, asked = look_ups()
        each = 50
        wanted = [[f"{one} {number} {'k' * 900}" for number in range(each)] for one in range(40)]
        found = await asyncio.gather(*(keys.find(some) for some in wanted))
        assert all(set(some) <= answer.keys() for some, answer in zip(wanted, found, strict=True))
        assert sum(map(len, asked)) == 40 * each
        assert max(sum(map(len, one)) for one in asked) < MOST_CHARACTERS + each * 1_000
        # Several that ask at once still have one question together.
        assert len(asked) < 40

    asyncio.run(scenario())
