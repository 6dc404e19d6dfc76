"""Rules on the copies of messages: their order, and where QoS 1 allows one to come again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.soak.records import Received, Records


def copy_problems(records: Records) -> Iterator[tuple[str, str]]:
    """Everything that is wrong with order and repetitions: kind and words."""
    by_client: dict[str, list[Received]] = defaultdict(list)
    for copy in records.received:
        by_client[copy.client].append(copy)
    for copies in by_client.values():
        copies.sort(key=lambda one: one.at)
        yield from _order(records, copies)
        yield from _repetitions(records, copies)


def _order(records: Records, copies: list[Received]) -> Iterator[tuple[str, str]]:
    """The first copies of one publisher's messages to a topic come as they were sent."""
    last: dict[tuple[str, str], int] = {}
    seen: set[str] = set()
    for copy in copies:
        message = records.sent.get(copy.name)
        if message is None or copy.name in seen:
            continue
        seen.add(copy.name)
        lane = (message.publisher, message.topic)
        if message.number < last.get(lane, -1):
            yield "order", f"{copy} after number {last[lane]}"
        last[lane] = max(message.number, last.get(lane, -1))


def _repetitions(records: Records, copies: list[Received]) -> Iterator[tuple[str, str]]:
    """Again: on a later connection, marked as such; or because the publisher sent it again."""
    before: dict[str, Received] = {}
    spare: dict[str, int] = {}
    for copy in copies:
        message = records.sent.get(copy.name)
        if message is None:
            continue
        earlier = before.get(copy.name)
        before[copy.name] = copy
        if earlier is None:
            spare[copy.name] = len(message.sends) - 1
        elif copy.connection > earlier.connection:
            killed = records.during("broker killed", earlier.at, copy.at)
            if not copy.is_repeated and not killed and not spare[copy.name]:
                yield "unmarked", f"{copy} came before as {earlier}"
        elif spare[copy.name]:
            spare[copy.name] -= 1
        else:
            yield "twice", f"{copy} came before as {earlier}"
