"""Which neighborhoods are changed in place, and which kinds of stages they have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from schemas.language.conditions import Condition
from schemas.language.neighborhood import Neighborhood, WrittenStage
from schemas.topology.relations import always_false_when_far
from spatial_udfs.entity_table import Bools

# Each kind of stage that is changed in place costs a pass over all rows. Neighborhoods with rare
# ones go through ``spatial_udfs/incremental/affected_sets.py``.
MOST_KINDS: Final = 128

_near_only = lru_cache(maxsize=4096)(always_false_when_far)


@dataclass(frozen=True, slots=True, eq=False)
class StageKind:
    """Stages that differ in nothing but their neighborhood; ``owners`` are those that have it."""

    number: int
    ref_stages: tuple[int, ...]
    categories: tuple[str, ...]
    condition: Condition
    owners: Bools


@dataclass(frozen=True, slots=True, eq=False)
class InPlace:
    """The sets that are changed in place, and the kinds of their stages, by stage number."""

    sets: Bools
    kinds: tuple[StageKind, ...]


def with_places(neighborhoods: Sequence[Neighborhood | None]) -> Bools:
    """Return which of the sets have places among their references."""
    return np.array([each is not None and bool(each.places) for each in neighborhoods], np.bool_)


def in_place(neighborhoods: Sequence[Neighborhood | None], usable: Bools) -> InPlace:
    """Return the usable sets whose stages are all of a frequent kind and see nothing far.

    Sets with places are none of them: a place has no number among the entities.

    A stage with a condition that holds from afar looks at every entity of the world: what a
    single change does to it is no matter of the neighborhood's surroundings.
    """
    usable = usable & ~with_places(neighborhoods)
    owners: dict[WrittenStage, list[int]] = {}
    for number in np.flatnonzero(usable).tolist():
        neighborhood = neighborhoods[number]
        stages = () if neighborhood is None else neighborhood.written_out()
        for stage in stages:
            owners.setdefault(stage, []).append(number)
    near = {stage: sets for stage, sets in owners.items() if _near_only(stage.condition)}
    frequent = sorted(near, key=lambda stage: -len(near[stage]))[:MOST_KINDS]
    chosen = usable & np.array([each is not None for each in neighborhoods], np.bool_)
    for stage in owners.keys() - set(frequent):
        chosen[owners[stage]] = False
    kinds = []
    for stage in sorted(frequent, key=lambda stage: stage.number):
        mask = np.zeros(len(neighborhoods), np.bool_)
        mask[near[stage]] = True
        mask &= chosen
        if mask.any():
            kinds.append(
                StageKind(stage.number, stage.ref_stages, stage.categories, stage.condition, mask)
            )
    return InPlace(chosen, tuple(kinds))
