"""Members of neighborhoods on a new version, out of those on an old one and what changed.

A stage's members are looked at again only where something about them is different. Let an
entity not be touched by the change. Then it is decided by its references: it can become a
member only through a reference that came, and can stop being one only when a reference near it
went, or when it became a reference itself (docs/decisions/0101). A touched entity is decided
anew. What came and went in one stage is what comes and goes among the references of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jobs.changed_stages import InPlace, StageKind
from jobs.changed_world import ChangedWorld
from jobs.resolved_sets import Bools, MemberRows
from jobs.row_keys import RowKeys, among, matched
from redis_link.tally import Int64s
from schemas.neighborhood import Neighborhood


def changed_members(
    neighborhoods: Sequence[Neighborhood | None],
    known: MemberRows,
    chosen: InPlace,
    world: ChangedWorld,
) -> MemberRows:
    """All rows of the chosen sets on the new version; ``known`` are those on the old one."""
    known = known.where(chosen.sets[known.sets])
    longest = max((kind.number for kind in chosen.kinds), default=0)
    keys = RowKeys(longest + 1, len(world))
    numbers, _ = world.numbers_of(known.peids)
    old_rows = keys.of(known.sets, known.stages, numbers)
    changing = _Changing(keys, world, old_rows, *_references(neighborhoods, chosen, keys, world))
    for kind in chosen.kinds:
        changing.change(kind)
    stays = ~among(old_rows, changing.lost)
    gained = changing.gained[keys.stages_of(changing.gained) > 0]
    return _with_gained(known.where(stays), old_rows[stays], gained, neighborhoods, keys, world)


def _references(
    neighborhoods: Sequence[Neighborhood | None],
    chosen: InPlace,
    keys: RowKeys,
    world: ChangedWorld,
) -> tuple[Int64s, Int64s]:
    """The references as rows of stage 0: those that the old version had, and the new one."""
    refs = {
        number: neighborhood.refs
        for number in np.flatnonzero(chosen.sets).tolist()
        if (neighborhood := neighborhoods[number]) is not None
    }
    owners = np.repeat(np.array([*refs], np.int64), [len(each) for each in refs.values()])
    peids = np.array([peid for each in refs.values() for peid in each], np.int64)
    numbers, known = world.numbers_of(peids)
    rows = np.unique(keys.of(owners[known], 0, numbers[known]))
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
    """The rows in their order, with the new ones where they belong."""
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


@dataclass(frozen=True, slots=True, eq=False)
class _References:
    """What is different among the references of one kind of stage: keys (set, entity).

    A touched reference went and came: it may be tied to others than before.
    """

    came: Int64s
    went: Int64s


class _Changing:
    """Rows of the old version, and what was lost and gained so far, stage by stage.

    Pairs (set, entity) are keys of stage 0, whatever stage they are about.
    """

    def __init__(
        self,
        keys: RowKeys,
        world: ChangedWorld,
        old_members: Int64s,
        old_references: Int64s,
        new_references: Int64s,
    ) -> None:
        self._keys, self._world = keys, world
        self._old = np.union1d(old_members, old_references)
        self._sets = keys.sets_of(self._old)
        self._stages = keys.stages_of(self._old)
        self._entities = keys.entities_of(self._old)
        self._touched = self._old[world.touched[self._entities]]
        # Rows that the new version does not have, and rows that only it has. Both ascend.
        self.lost = np.setdiff1d(old_references, new_references, assume_unique=True)
        self.gained = np.setdiff1d(new_references, old_references, assume_unique=True)

    def change(self, kind: StageKind) -> None:
        """Find what the stage loses and gains in all neighborhoods that have it."""
        references = self._changed_references(kind)
        touched = self._of_kind(self._touched, (kind.number,), kind)
        became_references = self._members_among(references.came, kind)
        doubtful = self._doubtful(kind, references)
        confirmed = doubtful[self._tied(kind, doubtful)]
        found = np.unique(
            np.concatenate(
                [confirmed, self._tied_to_new(kind, references.came), self._arrived(kind)]
            )
        )
        gone = np.unique(np.concatenate([touched, became_references, doubtful]))
        gone = np.setdiff1d(self._members_among(gone, kind), found, assume_unique=True)
        found = found[~self._was_member(found, kind)]
        self.lost = np.union1d(self.lost, self._rows(gone, kind.number))
        self.gained = np.union1d(self.gained, self._rows(found, kind.number))

    def _changed_references(self, kind: StageKind) -> _References:
        rows = np.concatenate([self.lost, self.gained, self._touched])
        changed = np.unique(self._of_kind(rows, kind.ref_stages, kind))
        touched = self._world.touched[self._keys.entities_of(changed)]
        before = self._is_reference(changed, kind, new=False)
        now = self._is_reference(changed, kind, new=True)
        return _References(
            came=changed[now & (~before | touched)], went=changed[before & (~now | touched)]
        )

    def _doubtful(self, kind: StageKind, references: _References) -> Int64s:
        """Pairs of untouched entities that must be decided by all references there are now."""
        keys, world = self._keys, self._world
        went, sets = keys.entities_of(references.went), keys.sets_of(references.went)
        distinct = np.unique(went)
        members = self._entity_mask(self._members_of(kind)) & ~world.touched
        asked, found = world.near(world.before[distinct], kind.condition, members)
        at, owner = matched(distinct[asked], went)
        near = np.unique(keys.of(sets[owner], 0, found[at]))
        # One that was a reference could not be a member, and perhaps is now.
        fitting = world.of_categories(kind.categories) & ~world.touched
        freed = references.went[fitting[went]]
        doubtful = np.union1d(self._members_among(near, kind), freed)
        return doubtful[~self._is_reference(doubtful, kind, new=True)]

    def _tied(self, kind: StageKind, pairs: Int64s) -> Bools:
        """For each pair (set, entity), whether a reference of the set ties the entity."""
        keys, world = self._keys, self._world
        entities, sets = keys.entities_of(pairs), keys.sets_of(pairs)
        distinct = np.unique(entities)
        asked, near = world.near(world.after[distinct], kind.condition, self._reference_mask(kind))
        at, pair = matched(distinct[asked], entities)
        reference, pair = near[at], pair
        own = self._is_reference(keys.of(sets[pair], 0, reference), kind, new=True)
        reference, pair = reference[own], pair[own]
        tied = np.zeros(len(pairs), np.bool_)
        tied[pair[self._holding(kind, reference, entities[pair])]] = True
        return tied

    def _tied_to_new(self, kind: StageKind, came: Int64s) -> Int64s:
        """Pairs (set, entity) that a reference ties which the set did not have, or elsewhere."""
        keys, world = self._keys, self._world
        references, sets = keys.entities_of(came), keys.sets_of(came)
        distinct = np.unique(references)
        fitting = world.of_categories(kind.categories)
        asked, found = world.near(world.after[distinct], kind.condition, fitting)
        holds = world.holding(kind.condition, distinct[asked], found)
        asked, found = asked[holds], found[holds]
        at, owner = matched(distinct[asked], references)
        return self._members_to_be(keys.of(sets[owner], 0, found[at]), kind)

    def _arrived(self, kind: StageKind) -> Int64s:
        """Pairs of a touched entity, as it is now, and every set with a reference that ties it."""
        keys, world = self._keys, self._world
        fitting = np.flatnonzero(world.touched & world.of_categories(kind.categories))
        referenced = self._reference_mask(kind)
        asked, near = world.near(world.after[fitting], kind.condition, referenced)
        holds = world.holding(kind.condition, near, fitting[asked])
        asked, near = asked[holds], near[holds]
        wanted = np.zeros(len(world), np.bool_)
        wanted[near] = True
        rows = self._reference_rows(kind, wanted)
        at, owner = matched(near, keys.entities_of(rows))
        pairs = keys.of(keys.sets_of(rows)[owner], 0, fitting[asked[at]])
        return self._members_to_be(pairs, kind)

    def _members_to_be(self, pairs: Int64s, kind: StageKind) -> Int64s:
        distinct = np.unique(pairs)
        return distinct[~self._is_reference(distinct, kind, new=True)]

    def _holding(self, kind: StageKind, references: Int64s, entities: Int64s) -> Bools:
        """Each pair of entities is decided once, however many sets ask for it."""
        pairs = references * len(self._world) + entities
        distinct, places = np.unique(pairs, return_inverse=True)
        holds = self._world.holding(
            kind.condition, distinct // len(self._world), distinct % len(self._world)
        )
        return holds[places]

    def _is_reference(self, pairs: Int64s, kind: StageKind, *, new: bool) -> Bools:
        """For each pair, whether the entity is a reference of the set's stage."""
        found = np.zeros(len(pairs), np.bool_)
        for stage in kind.ref_stages:
            rows = self._rows(pairs, stage)
            there = among(rows, self._old)
            if new:
                there = there & ~among(rows, self.lost) | among(rows, self.gained)
            found |= there
        return found

    def _reference_mask(self, kind: StageKind) -> Bools:
        """Which entities are a reference of the stage in any of the sets, or were one."""
        of_stages = np.isin(self._stages, kind.ref_stages) & kind.owners[self._sets]
        mask = self._entity_mask(self._entities[of_stages])
        mask |= self._entity_mask(
            self._keys.entities_of(self._of_kind(self.gained, kind.ref_stages, kind))
        )
        return mask & self._world.exists

    def _reference_rows(self, kind: StageKind, wanted: Bools) -> Int64s:
        """Pairs (set, reference) of the wanted entities on the new version."""
        old = self._old[wanted[self._entities]]
        gained = self.gained[wanted[self._keys.entities_of(self.gained)]]
        rows = np.concatenate([old[~among(old, self.lost)], gained])
        return np.unique(self._of_kind(rows, kind.ref_stages, kind))

    def _members_of(self, kind: StageKind) -> Int64s:
        """The entities that were members of the stage in any of the sets."""
        return self._entities[(self._stages == kind.number) & kind.owners[self._sets]]

    def _members_among(self, pairs: Int64s, kind: StageKind) -> Int64s:
        return pairs[self._was_member(pairs, kind)]

    def _was_member(self, pairs: Int64s, kind: StageKind) -> Bools:
        return among(self._rows(pairs, kind.number), self._old)

    def _of_kind(self, rows: Int64s, stages: Sequence[int], kind: StageKind) -> Int64s:
        """Rows of these stages, in sets that have the kind, as pairs (set, entity)."""
        keys = self._keys
        sets = keys.sets_of(rows)
        fits = kind.owners[sets] & np.isin(keys.stages_of(rows), stages)
        return keys.of(sets[fits], 0, keys.entities_of(rows[fits]))

    def _rows(self, pairs: Int64s, stage: int) -> Int64s:
        return pairs + stage * self._keys.entities

    def _entity_mask(self, entities: Int64s) -> Bools:
        mask = np.zeros(len(self._world), np.bool_)
        mask[entities] = True
        return mask
