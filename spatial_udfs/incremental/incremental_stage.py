"""What a change of the world does to the stages of many neighborhoods, one kind at a time.

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

from spatial_udfs.entity_table import Bools, Int64s
from spatial_udfs.incremental.changed_world import ChangedWorld
from spatial_udfs.incremental.in_place import StageKind
from spatial_udfs.incremental.member_rows import RowKeys, joined, matched, merged, without
from spatial_udfs.position_sets import as_set, is_in


@dataclass(frozen=True, slots=True, eq=False)
class _References:
    """What is different among the references of one kind of stage: keys (set, entity).

    A touched reference went and came: it may be tied to others than before.
    """

    came: Int64s
    went: Int64s


class ChangingRows:
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
        self._old = merged(old_members, old_references)
        self._sets = keys.sets_of(self._old)
        self._stages = keys.stages_of(self._old)
        self._entities = keys.entities_of(self._old)
        self._touched = self._old[world.touched[self._entities]]
        # Rows that the new version does not have, and rows that only it has. Both ascend.
        self.lost = without(old_references, new_references)
        self.gained = without(new_references, old_references)

    def change(self, kind: StageKind) -> None:
        """Find what the stage loses and gains in all neighborhoods that have it."""
        references = self._changed_references(kind)
        referenced = self._reference_mask(kind)
        doubtful = self._doubtful(kind, references)
        confirmed = doubtful[self._tied(kind, doubtful, referenced)]
        found = joined(
            confirmed, self._tied_to_new(kind, references.came), self._arrived(kind, referenced)
        )
        gone = joined(
            doubtful,
            self._touched_members(kind),
            self._became_references(kind, references.came),
        )
        gone = without(self._members_among(gone, kind), found)
        found = found[~self._was_member(found, kind)]
        self.lost = joined(self.lost, self._rows(gone, kind.number))
        self.gained = joined(self.gained, self._rows(found, kind.number))

    def _changed_references(self, kind: StageKind) -> _References:
        rows = np.concatenate([self.lost, self.gained, self._touched])
        changed = as_set(self._of_kind(rows, kind.ref_stages, kind))
        touched = self._world.touched[self._keys.entities_of(changed)]
        before = self._is_reference(changed, kind, new=False)
        now = self._is_reference(changed, kind, new=True)
        return _References(
            came=changed[now & (~before | touched)], went=changed[before & (~now | touched)]
        )

    def _touched_members(self, kind: StageKind) -> Int64s:
        return self._of_kind(self._touched, (kind.number,), kind)

    def _became_references(self, kind: StageKind, came: Int64s) -> Int64s:
        return self._members_among(came, kind)

    def _doubtful(self, kind: StageKind, references: _References) -> Int64s:
        """Return pairs of untouched entities that all references of now must decide."""
        keys, world = self._keys, self._world
        went, sets = keys.entities_of(references.went), keys.sets_of(references.went)
        different = as_set(went)
        members = self._entity_mask(self._members_of(kind)) & ~world.touched
        asked, found = world.near(world.before[different], kind.condition, members)
        at, owner = matched(different[asked], went)
        near = as_set(keys.of(sets[owner], 0, found[at]))
        doubtful = joined(self._members_among(near, kind), self._freed(kind, references.went))
        return doubtful[~self._is_reference(doubtful, kind, new=True)]

    def _freed(self, kind: StageKind, went: Int64s) -> Int64s:
        """Return references that went: they could not be members, and perhaps are now."""
        fitting = self._world.of_categories(kind.categories) & ~self._world.touched
        return went[fitting[self._keys.entities_of(went)]]

    def _tied(self, kind: StageKind, pairs: Int64s, referenced: Bools) -> Bools:
        """Return for each pair (set, entity) whether a reference of the set ties the entity."""
        keys, world = self._keys, self._world
        entities, sets = keys.entities_of(pairs), keys.sets_of(pairs)
        different = as_set(entities)
        asked, near = world.near(world.after[different], kind.condition, referenced)
        at, pair = matched(different[asked], entities)
        reference = near[at]
        own = self._is_reference(keys.of(sets[pair], 0, reference), kind, new=True)
        reference, pair = reference[own], pair[own]
        tied = np.zeros(len(pairs), np.bool_)
        tied[pair[self._holding(kind, reference, entities[pair])]] = True
        return tied

    def _tied_to_new(self, kind: StageKind, came: Int64s) -> Int64s:
        """Return pairs (set, entity) that a reference ties which is new there or has moved."""
        keys, world = self._keys, self._world
        references, sets = keys.entities_of(came), keys.sets_of(came)
        different = as_set(references)
        fitting = world.of_categories(kind.categories)
        asked, found = world.near(world.after[different], kind.condition, fitting)
        holds = world.holding(kind.condition, different[asked], found)
        asked, found = asked[holds], found[holds]
        at, owner = matched(different[asked], references)
        return self._members_to_be(keys.of(sets[owner], 0, found[at]), kind)

    def _arrived(self, kind: StageKind, referenced: Bools) -> Int64s:
        """Return pairs of a touched entity and every set with a reference that ties it now."""
        keys, world = self._keys, self._world
        fitting = np.flatnonzero(world.touched & world.of_categories(kind.categories))
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
        different = as_set(pairs)
        return different[~self._is_reference(different, kind, new=True)]

    def _holding(self, kind: StageKind, references: Int64s, entities: Int64s) -> Bools:
        """Return whether the condition holds; each pair is decided once, for all sets."""
        pairs: Int64s = references * len(self._world) + entities
        different = as_set(pairs)
        holds = self._world.holding(
            kind.condition, different // len(self._world), different % len(self._world)
        )
        return holds[np.searchsorted(different, pairs)]

    def _is_reference(self, pairs: Int64s, kind: StageKind, *, new: bool) -> Bools:
        """Return for each pair whether the entity is a reference of the set's stage."""
        found = np.zeros(len(pairs), np.bool_)
        for stage in kind.ref_stages:
            rows = self._rows(pairs, stage)
            there = is_in(rows, self._old)
            if new:
                there = there & ~is_in(rows, self.lost) | is_in(rows, self.gained)
            found |= there
        return found

    def _reference_mask(self, kind: StageKind) -> Bools:
        """Return which entities are a reference of the stage in any of the sets, or were one."""
        wanted = np.zeros(self._keys.stages, np.bool_)
        wanted[list(kind.ref_stages)] = True
        of_stages = wanted[self._stages] & kind.owners[self._sets]
        mask = self._entity_mask(self._entities[of_stages])
        mask |= self._entity_mask(
            self._keys.entities_of(self._of_kind(self.gained, kind.ref_stages, kind))
        )
        return mask & self._world.exists

    def _reference_rows(self, kind: StageKind, wanted: Bools) -> Int64s:
        """Return pairs (set, reference) of the wanted entities on the new version."""
        old = self._old[wanted[self._entities]]
        gained = self.gained[wanted[self._keys.entities_of(self.gained)]]
        rows = np.concatenate([old[~is_in(old, self.lost)], gained])
        return as_set(self._of_kind(rows, kind.ref_stages, kind))

    def _members_of(self, kind: StageKind) -> Int64s:
        """Return the entities that were members of the stage in any of the sets."""
        members: Int64s = self._entities[(self._stages == kind.number) & kind.owners[self._sets]]
        return members

    def _members_among(self, pairs: Int64s, kind: StageKind) -> Int64s:
        return pairs[self._was_member(pairs, kind)]

    def _was_member(self, pairs: Int64s, kind: StageKind) -> Bools:
        return is_in(self._rows(pairs, kind.number), self._old)

    def _of_kind(self, rows: Int64s, stages: Sequence[int], kind: StageKind) -> Int64s:
        """Return rows of these stages, in sets that have the kind, as pairs (set, entity)."""
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
