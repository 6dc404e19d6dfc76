"""The play: load, churn and broken connections without a pause, rebuild after rebuild, kills."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tests.servers.redis_server import RedisServer
from tests.soak.generation_watch import watch_broker, watch_redis
from tests.soak.ground import Ground, Plan
from tests.soak.publisher import Publisher
from tests.soak.rebuilder import Rebuilder
from tests.soak.records import PLAIN, PLAIN_NSID, Event, Records
from tests.soak.servers import BrokerProcess, Places, resident_megabytes
from tests.soak.subscriber import FILTERS, Subscriber, churn

QUIET_SECONDS = 3.0
PATIENCE_SECONDS = 120.0


class Soak:
    """One run. ``records`` has everything that happened."""

    def __init__(
        self, folder: Path, ground: Ground, plan: Plan, redis: RedisServer,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.ground = ground
        self.plan = plan
        self.records = Records()
        self._redis = redis
        self._say = say
        self._dice = random.Random(plan.seed)  # noqa: S311 - no secret
        self.places = Places(folder, redis.url)
        self.broker = BrokerProcess(self.places)
        self.rebuilder = Rebuilder(self.places, self.records, plan.grace_seconds, self._dice, say)
        self._sources = ground.write_sources(folder / "sources")
        self.publishers = [
            Publisher(
                f"publisher-{number}", self.broker.port, plan.rate / plan.publishers, ground,
                self.records,
            )
            for number in range(plan.publishers)
        ]  # fmt: skip
        # Every third lets acknowledgements gather, so that a cut leaves messages without one.
        self.subscribers = [
            Subscriber(
                f"subscriber-{number}", self.broker.port, ground, self.records,
                ack_seconds=0.3 if number % 3 == 0 else 0.0,
            )
            for number in range(plan.subscribers)
        ]  # fmt: skip
        self.auditor = Subscriber("auditor", self.broker.port, ground, self.records)
        self.started = 0.0
        # Time, and megabytes of the broker and of Redis.
        self.memory: list[tuple[float, float, float]] = []

    async def run(self) -> Records:
        """From the first rebuild to the last message."""
        await self._rebuild(1, kills=0.0)
        await self.broker.start(self.plan.memberships[0])
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [
                    tasks.create_task(work)
                    for work in (
                        watch_redis(self._redis.url, self.records),
                        watch_broker(self.broker.http_port, self.records),
                        *(one.run() for one in [*self.subscribers, self.auditor]),
                    )
                ]
                await self._play()
                for task in running:
                    task.cancel()
            code = await self.broker.stop()
            if code != 0:
                raise RuntimeError(f"the broker ended with {code}")
        finally:
            await self.broker.kill()
        return self.records

    async def _play(self) -> None:
        await self._until(lambda: bool(self.records.in_broker), "the broker's generation")
        await self.auditor.change(PLAIN_NSID, "#", PLAIN)
        await asyncio.gather(*(self._first_subscriptions(one) for one in self.subscribers))
        self.started = time.monotonic()
        publishing = [asyncio.create_task(one.run()) for one in self.publishers]
        async with self._restless():
            await asyncio.sleep(self.plan.pause_seconds)
            for edition in range(2, len(self.ground.editions) + 1):
                await self._act(edition)
        for publisher in self.publishers:
            publisher.end()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*publishing)
        await self._quiet()

    async def _first_subscriptions(self, subscriber: Subscriber) -> None:
        for nsid in range(1, self.plan.nsids + 1):
            number = self._dice.randrange(len(self.ground.neighborhoods))
            await subscriber.change(nsid, self._dice.choice(FILTERS), number)

    @contextlib.asynccontextmanager
    async def _restless(self) -> AsyncIterator[None]:
        """Subscriptions come and go, connections break; what is under way is finished."""
        under_way: set[asyncio.Task[None]] = set()
        tasks = [
            asyncio.create_task(self._churn(under_way)),
            asyncio.create_task(self._cut()),
            asyncio.create_task(self._report()),
            asyncio.create_task(self._weigh()),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # One that is never answered is the checker's business.
            if under_way:
                _, unanswered = await asyncio.wait(under_way, timeout=PATIENCE_SECONDS)
                for task in unanswered:
                    task.cancel()

    async def _churn(self, under_way: set[asyncio.Task[None]]) -> None:
        while True:
            await asyncio.sleep(self._dice.expovariate(self.plan.changes_a_second))
            subscriber = self._dice.choice(self.subscribers)
            nsid = self._dice.randint(1, self.plan.nsids)
            if nsid in subscriber.changing or not subscriber.is_settled:
                continue
            work = churn(subscriber, nsid, len(self.ground.neighborhoods), self._dice)
            task = asyncio.create_task(work)
            under_way.add(task)
            task.add_done_callback(under_way.discard)

    async def _cut(self) -> None:
        while True:
            await asyncio.sleep(self._dice.expovariate(self.plan.cuts_a_minute / 60))
            self._dice.choice(self.subscribers).cut(self._dice.uniform(0.05, 2.0))

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(10)
            records = self.records
            waiting = sum(one.acknowledged is None for one in list(records.sent.values())[-2000:])
            self._say(
                f"{len(records.sent):,} messages ({waiting} under way), "
                f"{len(records.received):,} deliveries, {len(records.changes):,} changes, "
                f"{len(records.in_broker)} generations"
            )

    async def _weigh(self) -> None:
        while True:
            pids = self.broker.pid, self._redis.process.pid
            self.memory.append((time.monotonic(), *(resident_megabytes(pid) for pid in pids)))
            await asyncio.sleep(1)

    # --- one rebuild, and what happens beside it

    async def _act(self, edition: int) -> None:
        plan = self.plan
        beside = []
        if edition == plan.redis_restart_at:
            beside.append(asyncio.create_task(self._restart_redis()))
        if edition == plan.broker_kill_at:
            beside.append(asyncio.create_task(self._kill_broker()))
        sure = edition == plan.sure_kill_at
        await self._rebuild(edition, plan.rebuild_kills, sure=sure)
        await asyncio.gather(*beside)
        await self._followed(edition)
        if edition == plan.rollback_at:
            await self.rebuilder.rollback()
            await self._followed(edition - 1)
        await asyncio.sleep(self._dice.uniform(0.5, 1.0) * plan.pause_seconds)

    async def _rebuild(self, edition: int, kills: float, *, sure: bool = False) -> None:
        self._sources[edition - 1].replace(self.places.source)
        await self.rebuilder.rebuild(edition, kills, is_killed_first=sure)

    async def _followed(self, version: int) -> None:
        """Wait for the broker; one that stays behind is a finding, and the play goes on."""
        begun, records = time.monotonic(), self.records
        try:
            await self._until(
                lambda: records.versions.get(records.in_broker[-1].generation) == version,
                f"the broker to follow to version {version}",
            )
        except TimeoutError as error:
            failed = Event("rebuild failed", begun, time.monotonic(), str(error))
            records.events.append(failed)

    async def _restart_redis(self) -> None:
        await asyncio.sleep(self._dice.uniform(0.5, 3.0))
        begun = time.monotonic()
        self._say("Redis is stopped")
        away = Event("redis away", begun, float("inf"))
        self.records.events.append(away)
        self._redis.process.terminate()
        await asyncio.to_thread(self._redis.process.wait)
        await asyncio.sleep(1)
        await asyncio.to_thread(self._redis.restart)
        self._note("Redis restarted", begun)
        # Whoever has asked just before may be answered some seconds later.
        away.ended = time.monotonic() + 10.0

    async def _kill_broker(self) -> None:
        await asyncio.sleep(self._dice.uniform(0.5, 3.0))
        begun = time.monotonic()
        self._say("the broker is killed")
        await self.broker.kill()
        await self.broker.start(self.plan.memberships[1])
        self._note("broker killed", begun)

    def _note(self, kind: str, begun: float, text: str = "") -> None:
        ended = time.monotonic()
        self.records.events.append(Event(kind, begun, ended, text))
        self._say(f"{kind}: {ended - begun:.1f} s {text}")

    # --- the end

    async def _quiet(self) -> None:
        """Until every subscriber is connected and nothing has come for a while."""
        await self._until(
            lambda: all(one.is_settled for one in [*self.subscribers, self.auditor]), "all clients"
        )
        count = -1
        while count != len(self.records.received):
            count = len(self.records.received)
            await asyncio.sleep(QUIET_SECONDS)

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited in vain for {what}")
            await asyncio.sleep(0.05)
