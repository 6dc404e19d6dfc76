"""The members of a rebuild into Redis: differences where that is less, else everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from rebuild.base import PushedBase
from rebuild.set_changes import Pairs, SetChanges
from redis_link.connection.client import RedisClient
from redis_link.generation.generation_changes import keep_changes
from redis_link.generation.generation_copy import GenerationCopy, PairChanges, can_copy
from redis_link.generation.generation_push import PushSource
from redis_link.generation.local_push import push_pairs
from redis_link.generation.push_report import PushReport
from redis_link.generation.sweep import Retention
from schemas.errors import GenerationError, PushBusyError, SpapsError
from world.memberships.resolved_sets import ResolvedSets

# A copied pair costs a fraction of one that is sent; beyond this share both are the same work.
MOST_DIFFERENT: Final = 0.5

# Gets what is to be done when everything is written, before the switch.
PushAll = Callable[[Callable[[int], None]], PushReport]


class Push:
    """One push, and the generation in force that it is compared with.

    ``everything``: copy nothing; what is different is only told.
    """

    def __init__(
        self,
        client: RedisClient,
        base: PushedBase | None,
        say: Callable[[str], None],
        *,
        everything: bool = False,
    ) -> None:
        self._client = client
        self._base = base
        self._say = say
        self._everything = everything
        self._copy: GenerationCopy | None = None
        self._compared: SetChanges | None = None
        self._is_prepared = False
        self._failure: SpapsError | None = None

    def begin(self, source: PushSource) -> None:
        """Let Redis copy what is in force while somebody finds out what is different."""
        if self._base is None or self._everything or self._copy or not can_copy(self._client):
            return
        self._copy = GenerationCopy(self._client, source, self._base.facts, self._say)
        try:
            self._copy.start()
        except PushBusyError:
            raise
        except GenerationError as error:
            self._say(f"pushing everything instead: {error}")
            self.close()
            self._everything = True

    def compare(self, result: ResolvedSets) -> None:
        """Find out what is different."""
        if self._base is not None and self._compared is None:
            self._compared = SetChanges(self._base.result, result)

    def prepare(self, result: ResolvedSets) -> None:
        """Compare, and write what is different: all but the switch, if a copy was begun.

        What goes wrong is told by ``run``: whoever calls this has other work to complete first.
        """
        self.compare(result)
        try:
            if self._copy is not None and self._compared is not None:
                self._write_changes(self._copy, self._compared)
        except SpapsError as error:
            self._failure = error

    def run(
        self,
        source: PushSource,
        result: ResolvedSets,
        retention: Retention,
        push_all: PushAll | None = None,
    ) -> tuple[PushReport, str]:
        """Push and switch; the report, and how it was done: ``changes`` or ``all``.

        ``push_all`` sends everything in another way than this process would.
        """
        self.compare(result)
        if self._compared is not None and self._is_little(self._compared):
            self.begin(source)
        if self._copy is not None and self._compared is not None:
            try:
                if self._write_changes(self._copy, self._compared):
                    report = self._copy.finish(retention, self._keep, source.commit)
                    return report, "changes"
            except PushBusyError:
                raise
            except GenerationError as error:
                self._say(f"pushing everything instead: {error}")
            finally:
                self.close()
        if push_all is not None:
            return push_all(self._keep), "all"
        report = push_pairs(
            self._client, source, _pairs(result),
            retention=retention, say=self._say, before_switch=self._keep,
        )  # fmt: skip
        return report, "all"

    def close(self) -> None:
        """Give up what is being copied, unless it is in force by now."""
        if self._copy is not None:
            self._copy.close()
            self._copy = None

    def _is_little(self, compared: SetChanges) -> bool:
        return compared.changed_pairs() <= MOST_DIFFERENT * compared.new_pairs()

    def _write_changes(self, copy: GenerationCopy, compared: SetChanges) -> bool:
        """Write them, unless that is done; False: they are too many."""
        if self._failure is not None:
            raise self._failure
        if not self._is_prepared and self._is_little(compared):
            copy.prepare(PairChanges(compared.pairs_to_add(), compared.pairs_to_remove()))
            self._is_prepared = True
        return self._is_prepared

    def _keep(self, generation: int) -> None:
        if self._compared is not None:
            keep_changes(self._client, generation, self._compared.by_subscription())


def _pairs(result: ResolvedSets) -> Iterator[Pairs]:
    for sub_ids, peids, _ in result.memberships():
        yield peids, sub_ids
