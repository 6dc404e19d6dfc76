"""What the demonstration publishes: messages about entities inside, beside and outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from schemas.language.limits import MAX_PEID
from schemas.subscription import Subscription
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import Resolution

TOPIC: Final = "city/events"


@dataclass(frozen=True, slots=True)
class Holding:
    """A neighborhood that one of the demonstration's clients subscribes to."""

    subscription: Subscription
    resolution: Resolution

    @property
    def name(self) -> str:
        """What it is called in the sample file."""
        number = self.subscription.sub_id
        return self.subscription.neighborhood.name or f"subscription {number}"

    def stages_of(self, peid: int | None, *, visible: bool = True) -> list[int]:
        """The stages that hold an entity: the visible ones, or the others."""
        stages = zip(self.resolution.stages, self.resolution.visible, strict=True)
        return [
            number
            for number, (members, is_visible) in enumerate(stages, start=1)
            if is_visible == visible and peid is not None and peid in members
        ]


@dataclass(frozen=True, slots=True)
class LiveMessage:
    """A message to publish: ``about`` says to people what its peid is."""

    about: str
    peid: int | None


def messages(table: EntityTable, holdings: Sequence[Holding]) -> list[LiveMessage]:
    """One for each case that the table of results explains, without repetitions."""
    chosen: dict[int, LiveMessage] = {}
    for peid in _telling_peids(table, holdings):
        chosen.setdefault(peid, LiveMessage(_label(table, peid), peid))
    unknown = next(n for n in range(MAX_PEID, 0, -1) if n not in table.peids)
    return [
        *chosen.values(),
        LiveMessage("an entity that the world does not have", unknown),
        LiveMessage("no entity", None),
    ]


def _telling_peids(table: EntityTable, holdings: Sequence[Holding]) -> Iterator[int]:
    for holding in holdings:
        resolution = holding.resolution
        visible = resolution.peids()
        for members, is_visible in zip(resolution.stages, resolution.visible, strict=True):
            # Of a stage that only helps to find others: an entity that is in no visible one.
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
