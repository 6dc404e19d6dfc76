"""The parts of a broker that use Redis: journal, registry, and the memberships of its mode.

Order of calls: construct, ``journal.load`` and restore the core, ``load_memberships``, listen,
``run`` until the end, ``close``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from broker.core.broker_core import Core
from broker.core.subscribe.subscription import Subscription
from broker.durability.durable_state import warn_of_other_brokers
from broker.durability.redis_journal import RedisJournal
from broker.durability.redis_registry import RedisRegistry
from broker.filter.memberships import Memberships
from broker.filter.memberships_memory import MemoryMemberships
from broker.filter.memberships_redis import RedisMemberships
from broker.generations.generation_watch import GenerationFollower
from broker.generations.memberships_redis_reader import RedisReader
from broker.generations.name_follower import NameFollower
from broker.generations.redis_definitions import RedisDefinitions
from broker.generations.switch_notices import SwitchNotices
from broker.ports import JournalState, MembershipReader, NoReader, Stores, check_broker_name
from broker.resolver.live_resolver import LiveResolver
from broker.shell.limits import ShellLimits
from broker.shell.metrics import Figure
from redis_link.connection.redis_router import RedisRouter
from redis_link.connection.server_settings import ServerWatch
from schemas.errors import RedisLinkError
from schemas.redis_keys import journal_key

log = logging.getLogger(__name__)

# Seconds that a look-up or a registration may wait for Redis.
ANSWER_SECONDS: Final = 2.0
STEP_SECONDS: Final = 1.0
# Seconds between two checks of the server's settings.
SERVER_SECONDS: Final = 60.0


class RedisBacking:
    """Everything of one broker that uses Redis; all calls come from the event loop."""

    def __init__(
        self,
        url: str,
        broker: str,
        core: Core,
        memberships: Memberships,
        resolver: LiveResolver | None,
        wake: Callable[[], None],
        limits: ShellLimits,
    ) -> None:
        """``resolver`` is None in the mode without neighborhoods.

        ``wake`` is called when the core has output.
        """
        check_broker_name(broker)
        self._router = RedisRouter(url, answer_seconds=ANSWER_SECONDS)
        self._core = core
        self._wake = wake
        self.journal = RedisJournal(url, broker, limits.journal)
        self.journal.follow(core)
        self._broker = broker
        self.registry = RedisRegistry(
            self._router, broker, self._slots_by_sub_id, self.journal.owner_token, self._adopt_again
        )
        self._server = ServerWatch(self._router, journal_key(broker))
        self.reader: MembershipReader = NoReader()
        self._definitions = RedisDefinitions(self._router)
        self.follower: GenerationFollower | None = None
        self._names: NameFollower | None = None
        if resolver is not None and isinstance(memberships, MemoryMemberships | RedisMemberships):
            notices = SwitchNotices(
                self._router, broker, self.journal.owner_token, core, resolver, wake
            )
            self.follower = GenerationFollower(
                self._router, memberships, resolver, core.neighborhoods, notices,
                limits.restore_seconds,
            )  # fmt: skip
            self._names = NameFollower(
                self._definitions, self.registry, resolver, core, self.follower, wake
            )
            if isinstance(memberships, RedisMemberships):
                self.reader = RedisReader(
                    self._router, memberships, self._slots_by_sub_id, self.follower.look_soon,
                    self.follower.sets_are_damaged,
                )  # fmt: skip

    @property
    def stores(self) -> Stores:
        """What this Redis stores, behind the ports."""
        return Stores(self.journal, self.registry, self.reader, self._definitions)

    @property
    def generation(self) -> int:
        """The generation in force; 0 when there is none."""
        follower = self.follower
        return 0 if follower is None or follower.facts is None else follower.facts.generation

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the settings of this Redis."""
        return self._server.risks

    @property
    def unanswered(self) -> int:
        """Number of neighborhoods that wait for the resolver."""
        return 0 if self.follower is None else self.follower.unanswered

    @property
    def problems(self) -> list[str]:
        """Problems that an operator should know about."""
        found = []
        if self.journal.state is JournalState.AWAY:
            found.append("Redis is away: what happens now would not survive a kill")
        elif self.journal.state is JournalState.TAKEN:
            found.append("another process owns the durable state: nothing is durable")
        if self.journal.losses:
            found.append(f"{len(self.journal.losses)} losses in Redis were found at the start: "
                         f"{self.journal.losses[0]}; the log names all")  # fmt: skip
        if self.follower is not None and self.follower.damage:
            found.append(f"neighborhoods are resolved by this broker: {self.follower.damage}")
        if self.follower is not None and self.follower.problem:
            found.append(f"the generation in force is not followed: {self.follower.problem}")
        if self._names is not None and self._names.problem:
            found.append(f"named neighborhoods are not followed: {self._names.problem}")
        if self.unanswered:
            found.append(
                f"{self.unanswered} neighborhoods wait for the resolver: messages about entities "
                "under their topics are refused"
            )
        if self.follower is not None and (refused := self.follower.waiting.refused):
            found.append(f"{refused} neighborhoods have no members: the resolver fails on them")
        return found

    def figures(self) -> list[Figure]:
        """Return the metrics of these parts."""
        counted = self.journal.figures
        found = [
            Figure("spaps_journal_present", "1 while what is acknowledged is durable",
                   lambda: float(self.journal.state is JournalState.PRESENT)),
            Figure("spaps_journal_steps", "Steps stored in Redis",
                   lambda: counted.steps, is_counter=True),
            Figure("spaps_journal_records", "Records stored in Redis before they were promised",
                   lambda: counted.stored_records, is_counter=True),
            Figure("spaps_journal_not_durable_records", "Records promised while Redis was away",
                   lambda: counted.not_durable_records, is_counter=True),
            Figure("spaps_journal_times_away", "Times that Redis was away",
                   lambda: counted.times_away, is_counter=True),
            Figure("spaps_journal_fresh_editions", "Times that the whole state was written again",
                   lambda: counted.fresh_editions, is_counter=True),
        ]  # fmt: skip
        follower = self.follower
        if follower is not None:
            found += [
                Figure("spaps_neighborhoods_waiting", "Neighborhoods without members, by cause",
                       lambda: {"unanswered": follower.unanswered,
                                "refused": follower.waiting.refused}, label="cause"),
                Figure("spaps_generation_pairs", "Pairs of the generation in force, for all"
                       " brokers", lambda: 0 if follower.facts is None else follower.facts.pairs),
            ]  # fmt: skip
        reader = self.reader
        if isinstance(reader, RedisReader):
            found += [
                Figure("spaps_membership_reads", "Round trips for memberships",
                       lambda: reader.round_trips, is_counter=True),
                Figure("spaps_membership_read_seconds", "Seconds that reads of memberships took",
                       lambda: reader.read_seconds, is_counter=True),
                Figure("spaps_membership_sets_read", "Membership sets read",
                       lambda: reader.sets_read, is_counter=True),
            ]  # fmt: skip
        return found

    async def load_memberships(self) -> None:
        """Load the members of the restored subscriptions; raises on failure."""
        await warn_of_other_brokers(self._router, self._broker, self.journal.owner_token)
        await self._look_at_server()
        if self.follower is not None:
            await self.registry.begin(self._registered(), self._renumber)
            await self.follower.load()

    async def run(self) -> None:
        """Follow the changes in Redis until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_server(), name="Redis settings")
            if self.follower is not None:
                tasks.create_task(self.follower.follow(), name="generation")
                tasks.create_task(self.follower.waiting.run(), name="waiting neighborhoods")
                tasks.create_task(self._keep_registry(), name="registry")
            if self._names is not None:
                tasks.create_task(self._names.follow(), name="named neighborhoods")

    def rights_changed(self) -> None:
        """Check who may use named neighborhoods: the rights of clients changed."""
        if self._names is not None:
            self._names.check_all()

    async def close(self) -> None:
        """Store what is left and close."""
        await self.journal.close()
        self._router.close()

    async def _watch_server(self) -> None:
        while True:
            await asyncio.sleep(SERVER_SECONDS)
            await self._look_at_server()

    async def _look_at_server(self) -> None:
        for risk in await self._server.look():
            log.warning("%s", risk)

    async def _keep_registry(self) -> None:
        while True:
            await asyncio.sleep(STEP_SECONDS)
            try:
                await self.registry.keep_in_step(self._registered, self._renumber)
            except RedisLinkError as error:
                log.debug("the registry cannot be reached: %s", error)

    def _registered(self) -> list[Subscription]:
        """Return the subscriptions that the registry holds: not those whose name is removed."""
        return [one for one in self._core.neighborhoods if one.terms.descriptor is not None]

    def _renumber(self, subscription: Subscription, sub_id: int) -> None:
        self._core.neighborhoods.renumber(subscription, sub_id)
        self._wake()

    def _adopt_again(self) -> None:
        if self.follower is not None:
            self.follower.adopt_again()

    def _slots_by_sub_id(self) -> Mapping[int, int]:
        return self._core.neighborhoods.slots_by_sub_id
