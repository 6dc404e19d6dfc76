"""A neighborhood as one subscription for each visible stage, so that nsids name the stages.

The broker gives with each message the nsids of the subscriptions that match. With one subscription
for each stage these are the stages that matched, by the memberships in force: after a change of
the world as well (docs/decisions/0212-explain-is-a-subscription-for-each-stage.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from schemas.language.explain import stage_words
from schemas.language.neighborhood import Neighborhood


@dataclass(frozen=True, slots=True)
class StageSubscription:
    """The neighborhood of one visible stage, and what this stage selects."""

    number: int
    words: str
    neighborhood: Neighborhood


def stage_subscriptions(neighborhood: Neighborhood) -> list[StageSubscription]:
    """Return a neighborhood for each visible stage; together they have the same members."""
    count = len(neighborhood.visible)
    return [
        StageSubscription(
            number,
            words,
            replace(neighborhood, visible=tuple(one == number for one in range(1, count + 1))),
        )
        for number, words in enumerate(stage_words(neighborhood), start=1)
        if neighborhood.visible[number - 1]
    ]


class StagesOfNsids:
    """Which stage each nsid of this client stands for."""

    def __init__(self, name: str | None) -> None:
        """``name`` is that of the neighborhood, if it has one."""
        self._name = name
        self._numbers: dict[int, int] = {}

    def add(self, nsid: int, stage: StageSubscription) -> None:
        """Remember the nsid that the broker gave to a stage."""
        self._numbers[nsid] = stage.number

    def of(self, nsids: Iterable[int]) -> list[int]:
        """Return the stages, each once; two topic filters have the same ones."""
        return sorted({self._numbers[nsid] for nsid in nsids if nsid in self._numbers})

    def label(self, nsids: Iterable[int]) -> str:
        """Return the stages in words, for people."""
        numbers = self.of(nsids)
        text = ("stage " if len(numbers) == 1 else "stages ") + ", ".join(map(str, numbers))
        return text if self._name is None else f"{self._name}: {text}"
