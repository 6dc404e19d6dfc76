"""A whole world and a whole batch out of one seed, for engines that are slow to start.

Hypothesis draws too little at once for hundreds of entities and subscriptions, so it draws the
seed. All coordinates are integers and all limits have few binary digits: what touches, touches
exactly, and no engine can round a distance to the other side of its limit.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from shapely import affinity

from schemas.language.conditions import And, Condition, Not, Or, Relate, Topological, WithinDistance
from schemas.language.limits import MAX_PEID
from schemas.language.neighborhood import Neighborhood, RefStages, Stage
from schemas.topology.relations import LONG_NAMES
from spatial_udfs.entity_table import EntityTable
from tests.strategies.geometry_pairs import GeometryPool
from tests.strategies.neighborhoods import PATTERNS
from tests.strategies.worlds import CATEGORIES, table_of

# Districts lie close enough that some of their geometries reach into the next one.
_DISTRICTS: Final = 4
_DISTRICT_SIDE: Final = 7
_LIMITS: Final = (0.0, 0.5, 1.0, 2.25, 5.0, 8.5, 13.0, 1e7)
_CELLS: Final = "*******TTF012"
_ABSENT_PEID: Final = MAX_PEID


@dataclass(frozen=True, slots=True)
class LargeBatch:
    """A world and neighborhoods on it; the last of them have no reference that exists."""

    world: EntityTable
    neighborhoods: list[Neighborhood]


def large_batch(seed: int, entities: int, subscriptions: int) -> LargeBatch:
    """The same for the same seed; some neighborhoods are equal, some share their beginning."""
    dice = random.Random(seed)  # noqa: S311  no secret is made here
    world = _world(dice, seed, entities)
    peids = world.peids.tolist()
    templates = [_stages(dice) for _ in range(2 * subscriptions // 3)]
    wanted = []
    for number in range(subscriptions):
        stages = templates[number] if number < len(templates) else dice.choice(templates)
        references = dice.sample(peids, dice.choice((1, 1, 2, 6)))
        if dice.random() < 0.2:
            references.append(_ABSENT_PEID)
        wanted.append(_neighborhood(dice, references, stages))
    wanted += [dice.choice(wanted) for _ in range(3)]
    wanted += [_neighborhood(dice, [_ABSENT_PEID], templates[0])]
    return LargeBatch(world, wanted)


def _world(dice: random.Random, seed: int, entities: int) -> EntityTable:
    pool = GeometryPool(seed)
    areas = [pool.area() for _ in range(entities // 3)]
    lines = [pool.line(areas) for _ in range(entities // 3)]
    points = [pool.points() for _ in range(entities - len(areas) - len(lines))]
    shapes = [_placed(dice, shape) for shape in (*areas, *lines, *points)]
    shapes += dice.sample(shapes, 5)  # some lie exactly where another one does
    small = dice.sample(range(10 * len(shapes)), len(shapes) - 2)
    peids = [*small, MAX_PEID - 1, 2**62]
    dice.shuffle(peids)
    return table_of(
        (peid, tuple(dice.sample(CATEGORIES, dice.randint(1, 3))), shape)
        for peid, shape in zip(peids, shapes, strict=True)
    )


def _placed(dice: random.Random, shape: Any) -> Any:
    east, north = (_DISTRICT_SIDE * dice.randrange(_DISTRICTS) for _ in range(2))
    return affinity.translate(shape, east, north)


def _neighborhood(
    dice: random.Random, references: Sequence[int], stages: tuple[Stage, ...]
) -> Neighborhood:
    written = sum(stage.repeat for stage in stages)
    visible = [dice.random() < 0.7 for _ in range(written)]
    visible[dice.randrange(written)] = True
    return Neighborhood(tuple(references), stages, tuple(visible))


def _stages(dice: random.Random) -> tuple[Stage, ...]:
    """Up to four stages, written out; conditions and categories like to come again."""
    usual = _patterns(dice), _condition(dice)
    stages: list[Stage] = []
    number = 1
    written = dice.choice((1, 2, 2, 3, 4))
    while number <= written:
        repeat = dice.randint(1, written - number + 1) if stages else 1
        stages.append(
            Stage(
                categories=dice.choice((usual[0], ("#",), _patterns(dice))),
                condition=dice.choice((usual[1], _condition(dice))),
                ref_stages=_ref_stages(dice, number) if stages else None,
                repeat=repeat,
            )
        )
        number += repeat
    return tuple(stages)


def _patterns(dice: random.Random) -> tuple[str, ...]:
    return tuple(dice.sample(PATTERNS, dice.randint(1, 3)))


def _ref_stages(dice: random.Random, number: int) -> RefStages:
    listed = tuple(sorted(dice.sample(range(1, number), dice.randint(1, min(3, number - 1)))))
    choices: tuple[RefStages, ...] = ("Prev", "Prev", "Anc", listed)
    return dice.choice(choices)


def _condition(dice: random.Random, depth: int = 2) -> Condition:
    if depth == 0 or dice.random() < 0.35:
        return _leaf(dice)
    if dice.random() < 0.3:
        return Not(_condition(dice, depth - 1))
    parts = tuple(_condition(dice, depth - 1) for _ in range(dice.randint(2, 3)))
    return And(parts) if dice.random() < 0.5 else Or(parts)


def _leaf(dice: random.Random) -> Condition:
    chosen = dice.random()
    if chosen < 0.5:
        return Topological(dice.choice(sorted(LONG_NAMES)))
    if chosen < 0.75:
        return WithinDistance(dice.choice(_LIMITS))
    return Relate("".join(dice.choice(_CELLS) for _ in range(9)))
