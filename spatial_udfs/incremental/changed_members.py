"""Members of neighborhoods on a new version, out of those on an old one and what changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schemas.language.neighborhood import Neighborhood
from spatial_udfs.entity_table import Int64s
from spatial_udfs.incremental.changed_world import ChangedWorld
from spatial_udfs.incremental.in_place import InPlace
from spatial_udfs.incremental.incremental_stage import ChangingRows
from spatial_udfs.incremental.member_rows import MemberRows, RowKeys
from spatial_udfs.position_sets import as_set


def changed_members(
    neighborhoods: Sequence[Neighborhood | None],
    known: MemberRows,
    chosen: InPlace,
    world: ChangedWorld,
) -> MemberRows:
    """Return all rows of the chosen sets on the new version; ``known`` are those on the old one."""
    known = known.where(chosen.sets[known.sets])
    longest = max((kind.number for kind in chosen.kinds), default=0)
    keys = RowKeys(longest + 1, len(world))
    numbers, _ = world.numbers_of(known.peids)
    old_rows = keys.of(known.sets, known.stages, numbers)
    changing = ChangingRows(keys, world, old_rows, *_references(neighborhoods, chosen, keys, world))
    for kind in chosen.kinds:
        changing.change(kind)
    stays = np.ones(len(old_rows), np.bool_)
    lost = changing.lost[keys.stages_of(changing.lost) > 0]
    stays[np.searchsorted(old_rows, lost)] = False
    gained = changing.gained[keys.stages_of(changing.gained) > 0]
    return _with_gained(known.where(stays), old_rows[stays], gained, neighborhoods, keys, world)


def _references(
    neighborhoods: Sequence[Neighborhood | None],
    chosen: InPlace,
    keys: RowKeys,
    world: ChangedWorld,
) -> tuple[Int64s, Int64s]:
    """Return the references as rows of stage 0: those that the old version had, and the new one."""
    refs = {
        number: neighborhood.refs
        for number in np.flatnonzero(chosen.sets).tolist()
        if (neighborhood := neighborhoods[number]) is not None
    }
    owners = np.repeat(np.array([*refs], np.int64), [len(each) for each in refs.values()])
    peids = np.array([peid for each in refs.values() for peid in each], np.int64)
    numbers, known = world.numbers_of(peids)
    rows = as_set(keys.of(owners[known], 0, numbers[known]))
    entities = keys.entities_of(rows)
    return rows[world.existed[entities]], rows[world.exists[entities]]


def _with_gained(
    kept: MemberRows,
    kept_keys: Int64s,
    gained: Int64s,
    neighborhoods: Sequence[Neighborhood | None],
    keys: RowKeys,
    world: ChangedWorld,
) -> MemberRows:
    """Return the rows in their order, with the new ones where they belong."""
    sets, stages = keys.sets_of(gained), keys.stages_of(gained)
    shown = np.array(
        [
            neighborhood is not None and neighborhood.visible[stage - 1]
            for number, stage in zip(sets.tolist(), stages.tolist(), strict=True)
            for neighborhood in (neighborhoods[number],)
        ],
        np.bool_,
    )
    places = np.searchsorted(kept_keys, gained)
    return MemberRows(
        np.insert(kept.sets, places, sets.astype(np.int32)),
        np.insert(kept.stages, places, stages.astype(np.int32)),
        np.insert(kept.shown, places, shown),
        np.insert(kept.peids, places, world.peids[keys.entities_of(gained)]),
    )
