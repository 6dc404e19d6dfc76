"""Part 4: a broker, clients with neighborhoods, messages, and which client got which and why."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from schemas.errors import SpapsError
from schemas.language.limits import MAX_PEID
from schemas.settings import Settings
from schemas.subscription import Subscription
from spaps.cli.neighborhood_input import read_subscriptions
from spaps.cli.output import plain_table
from spaps.client.message import Message
from spaps.client.spatial_client import SpatialClient
from spaps.demo.broker_process import demo_broker
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver, Resolution
from world.snapshot import load_snapshot
from world.versions.version_tables import VersionFacts

TOPIC: Final = "city/events"
# The last message goes to everybody: a client that has it has all messages that were for it.
END_TOPIC: Final = "city/end"
NEIGHBORHOODS: Final = 3
# So that a person can follow the messages as they come.
PAUSE_SECONDS: Final = 0.2
PATIENCE_SECONDS: Final = 60.0


class DemoMismatchError(SpapsError):
    """The broker delivered something else than the resolver predicts."""


@dataclass(frozen=True, slots=True)
class DemoNeighborhood:
    """A neighborhood that one of the demonstration's clients subscribes to."""

    subscription: Subscription
    resolution: Resolution

    @property
    def name(self) -> str:
        """The name in the sample file."""
        number = self.subscription.sub_id
        return self.subscription.neighborhood.name or f"subscription {number}"

    def stages_of(self, peid: int | None, *, visible: bool = True) -> list[int]:
        """Return the visible stages that hold an entity, or those that are not visible."""
        stages = zip(self.resolution.stages, self.resolution.visible, strict=True)
        return [
            number
            for number, (members, is_visible) in enumerate(stages, start=1)
            if is_visible == visible and peid is not None and peid in members
        ]


@dataclass(frozen=True, slots=True)
class LiveMessage:
    """A message to publish; ``about`` describes its entity."""

    about: str
    peid: int | None


@dataclass(slots=True)
class Subscriber:
    """One client of the demonstration, and the messages that it received."""

    name: str
    holdings: dict[int, DemoNeighborhood]
    inbox: queue.SimpleQueue[Message] = field(default_factory=queue.SimpleQueue)
    # The nsids of each message, by its number, which is its payload.
    received: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def predicted(self, message: LiveMessage) -> tuple[int, ...] | None:
        """Return the nsids that the message must have; None when it must not arrive."""
        if not self.holdings:
            return ()
        nsids = [n for n, one in self.holdings.items() if one.stages_of(message.peid)]
        return tuple(nsids) or None

    def collect(self) -> None:
        """Take all messages up to the last one."""
        while (message := self.inbox.get(timeout=PATIENCE_SECONDS)).topic != END_TOPIC:
            self.received[int(message.payload)] = tuple(sorted(message.nsids))


def run_live(settings: Settings, facts: VersionFacts, console: Console) -> None:
    """Start the broker, subscribe, publish, and show the result."""
    console.print()
    console.rule("[bold]4. Messages, filtered", align="left")
    table = load_snapshot(settings.world.dir, facts.version)
    resolver = ExactResolver(table)
    samples, _ = read_subscriptions(settings.demo.subscriptions)
    holdings = [
        DemoNeighborhood(sample, resolver.resolve(sample.neighborhood))
        for sample in samples[:NEIGHBORHOODS]
    ]
    first, *others = holdings
    # One client has two neighborhoods under one topic filter: their nsids tell them apart.
    subscribers = [
        Subscriber("A", dict(enumerate((first, *others[1:]), start=1))),
        Subscriber("B", dict(enumerate(others[:1], start=1))),
        Subscriber("C", {}),
    ]
    to_send = messages(table, holdings)
    with demo_broker(settings.world.dir) as (port, ready):
        console.print(ready, soft_wrap=True)
        _exchange(port, subscribers, to_send)
    _say_who(console, subscribers)
    console.print(_result(to_send, subscribers))
    _check(to_send, subscribers)
    console.print("[dim]every message was delivered as the exact resolver predicts")


def _exchange(port: int, subscribers: Sequence[Subscriber], to_send: Sequence[LiveMessage]) -> None:
    with ExitStack() as stack:
        for subscriber in subscribers:
            client = SpatialClient("127.0.0.1", port, on_message=subscriber.inbox.put)
            stack.enter_context(client)
            if not subscriber.holdings:
                client.subscribe_topic(TOPIC, qos=1)
            for nsid, holding in subscriber.holdings.items():
                client.subscribe(TOPIC, holding.subscription.neighborhood, nsid=nsid, qos=1)
            client.subscribe_topic(END_TOPIC, qos=1)
        publisher = stack.enter_context(SpatialClient("127.0.0.1", port))
        for number, message in enumerate(to_send):
            publisher.publish(TOPIC, str(number), peid=message.peid, qos=1).wait(PATIENCE_SECONDS)
            time.sleep(PAUSE_SECONDS)
        publisher.publish(END_TOPIC, qos=1).wait(PATIENCE_SECONDS)
        for subscriber in subscribers:
            subscriber.collect()


def _say_who(console: Console, subscribers: Sequence[Subscriber]) -> None:
    for subscriber in subscribers:
        held = [f"nsid {nsid}: {one.name}" for nsid, one in subscriber.holdings.items()]
        console.print(f"[bold]{subscriber.name}[/] {'; '.join(held) or 'the topic, all of it'}")


def _result(to_send: Sequence[LiveMessage], subscribers: Sequence[Subscriber]) -> Table:
    rows = plain_table()
    rows.add_column("message about", overflow="fold")
    for subscriber in subscribers:
        rows.add_column(f"to {subscriber.name}")
    for number, message in enumerate(to_send):
        rows.add_row(message.about, *(_cell(one, number, message) for one in subscribers))
    return rows


def _cell(subscriber: Subscriber, number: int, message: LiveMessage) -> Text:
    """Return why the message was delivered, or why not."""
    nsids = subscriber.received.get(number)
    if nsids is None:
        return Text(f"filtered: {_why_not(subscriber, message)}", "dim")
    if not nsids:
        return Text("topic", "green")
    reasons = []
    for nsid in nsids:
        stages = subscriber.holdings[nsid].stages_of(message.peid)
        reasons.append(f"nsid {nsid}, stage {', '.join(map(str, stages))}")
    return Text("\n".join(reasons), "green")


def _why_not(subscriber: Subscriber, message: LiveMessage) -> str:
    if message.peid is None:
        return "names no entity"
    for nsid, holding in subscriber.holdings.items():
        hidden = holding.stages_of(message.peid, visible=False)
        if hidden:
            return f"stage {', '.join(map(str, hidden))} of nsid {nsid} is not visible"
    return "outside"


def _check(to_send: Sequence[LiveMessage], subscribers: Sequence[Subscriber]) -> None:
    for subscriber in subscribers:
        for number, message in enumerate(to_send):
            came, due = subscriber.received.get(number), subscriber.predicted(message)
            if came != due:
                raise DemoMismatchError(
                    f"message about {message.about} to {subscriber.name}: "
                    f"nsids {came}, expected {due}"
                )


def messages(table: EntityTable, holdings: Sequence[DemoNeighborhood]) -> list[LiveMessage]:
    """Return one message for each case that the table of results explains."""
    chosen: dict[int, LiveMessage] = {}
    for peid in _example_peids(table, holdings):
        chosen.setdefault(peid, LiveMessage(_label(table, peid), peid))
    unknown = next(n for n in range(MAX_PEID, 0, -1) if n not in table.peids)
    return [
        *chosen.values(),
        LiveMessage("an entity that the world does not have", unknown),
        LiveMessage("no entity", None),
    ]


def _example_peids(table: EntityTable, holdings: Sequence[DemoNeighborhood]) -> Iterator[int]:
    for holding in holdings:
        resolution = holding.resolution
        visible = resolution.peids()
        for members, is_visible in zip(resolution.stages, resolution.visible, strict=True):
            # Of a stage that is not visible: an entity that is in no visible stage.
            candidates = members if is_visible else np.setdiff1d(members, visible)
            if len(candidates):
                yield int(candidates[len(candidates) // 2])
    everything = np.concatenate([one for holding in holdings for one in holding.resolution.stages])
    elsewhere = np.setdiff1d(table.peids, everything)
    if len(elsewhere):
        yield int(elsewhere[len(elsewhere) // 2])


def _label(table: EntityTable, peid: int) -> str:
    positions, _ = table.positions_of(np.array([peid], np.int64))
    position = int(positions[0])
    category = table.categories_at(position)[0]
    name = table.names[position]
    return f"{name} ({category})" if name else category
