"""The members of a rebuild into Redis: differences where that is less, else everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from jobs.rebuild_base import PushedBase
from jobs.resolved_sets import ResolvedSets
from jobs.set_changes import Pairs, SetChanges
from redis_link.client import RedisClient
from redis_link.generation_changes import keep_changes
from redis_link.generation_copy import PairChanges, can_copy, push_changes
from redis_link.generation_push import PushSource
from redis_link.local_push import push_pairs
from redis_link.push_report import PushReport
from redis_link.sweep import Retention
from schemas.errors import GenerationError, PushBusyError

# A copied pair costs a fraction of one that is sent; beyond this share both are the same work.
MOST_DIFFERENT: Final = 0.5

# Gets what is to be done when everything is written, before the switch.
PushAll = Callable[[Callable[[int], None]], PushReport]


@dataclass(frozen=True, slots=True, eq=False)
class Push:
    """What is pushed, and the generation in force that it is compared with."""

    client: RedisClient
    source: PushSource
    result: ResolvedSets
    base: PushedBase | None
    retention: Retention
    say: Callable[[str], None]
    # Copy nothing; what is different is only told.
    everything: bool = False

    def run(self, push_all: PushAll | None = None) -> tuple[PushReport, str]:
        """Push and switch; the report, and how it was done: ``changes`` or ``all``.

        ``push_all`` sends everything in another way than this process would.
        """
        compared = None if self.base is None else SetChanges(self.base.result, self.result)
        if compared is not None and self._is_little(compared) and can_copy(self.client):
            try:
                return self._changes(compared), "changes"
            except PushBusyError:
                raise
            except GenerationError as error:
                self.say(f"pushing everything instead: {error}")
        return (push_all or self._all)(self._keeper(compared)), "all"

    def _is_little(self, compared: SetChanges) -> bool:
        most = MOST_DIFFERENT * compared.new_pairs()
        return not self.everything and compared.changed_pairs() <= most

    def _changes(self, compared: SetChanges) -> PushReport:
        assert self.base is not None  # noqa: S101  compared with it a moment ago
        changes = PairChanges(compared.pairs_to_add(), compared.pairs_to_remove())
        return push_changes(
            self.client, self.source, self.base.facts, changes,
            retention=self.retention, say=self.say, before_switch=self._keeper(compared),
        )  # fmt: skip

    def _all(self, before_switch: Callable[[int], None]) -> PushReport:
        return push_pairs(
            self.client, self.source, self._pairs(),
            retention=self.retention, say=self.say, before_switch=before_switch,
        )  # fmt: skip

    def _pairs(self) -> Iterator[Pairs]:
        for sub_ids, peids, _ in self.result.memberships():
            yield peids, sub_ids

    def _keeper(self, compared: SetChanges | None) -> Callable[[int], None]:
        def keep(generation: int) -> None:
            if compared is not None:
                keep_changes(self.client, generation, compared.by_subscription())

        return keep
