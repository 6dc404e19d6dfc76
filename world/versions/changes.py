"""Compares two world versions, entity by entity."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import entity
from spatial_udfs.entity_table import Bools, Int64s
from spatial_udfs.incremental.world_changes import WorldChanges
from world.versions.store import WorldStore

# Separates categories that are compared as one text; no category contains it.
_BETWEEN = "\x00"


def compare_versions(
    store: WorldStore, old: int, new: int, entities: pa.Table | None = None
) -> WorldChanges:
    """Return the changes between two versions; ``entities`` are those of the new one, if known."""
    nothing = np.empty(0, np.int64)
    if old == new:
        nowhere = pa.chunked_array([], pa.binary())
        return WorldChanges(nothing, nothing, nothing, nothing, nothing, nothing, nowhere)
    same_crs = store.facts_of(old).srid == store.facts_of(new).srid
    rows = store.entities(new) if entities is None else entities
    return compare_entities(store.entities(old), rows, same_crs=same_crs)


def compare_entities(old: pa.Table, new: pa.Table, *, same_crs: bool = True) -> WorldChanges:
    """Return the changes between two tables of entities (UNVERSIONED_ENTITIES).

    With another CRS all coordinates are different, so every entity counts as moved.
    """
    old_peids, new_peids = _peids(old), _peids(new)
    common, old_places, new_places = np.intersect1d(
        old_peids, new_peids, assume_unique=True, return_indices=True
    )
    before, after = old.take(pa.array(old_places)), new.take(pa.array(new_places))
    moved = _differs(before, after, entity.GEOMETRY) if same_crs else np.ones(len(common), bool)
    removed = np.setdiff1d(old_peids, common, assume_unique=True)
    left = np.union1d(removed, common[moved])
    places = _places(old_peids, left)
    return WorldChanges(
        added=np.setdiff1d(new_peids, common, assume_unique=True),
        removed=removed,
        moved=common[moved],
        recategorised=common[_recategorised(before, after)],
        renamed=common[_differs(before, after, entity.NAME)],
        left=left,
        left_places=old.column(entity.GEOMETRY).take(pa.array(places)),
    )


def _peids(rows: pa.Table) -> Int64s:
    peids: Int64s = rows.column(entity.PEID).to_numpy()
    return peids


def _places(peids: Int64s, wanted: Int64s) -> Int64s:
    """Return the position of each wanted peid among the peids; all of them must exist."""
    order = np.argsort(peids)
    places: Int64s = order[np.searchsorted(peids, wanted, sorter=order)]
    return places


def _differs(before: pa.Table, after: pa.Table, name: str) -> Bools:
    """Return where the two columns differ; two nulls are equal."""
    old, new = before.column(name), after.column(name)
    same = pc.fill_null(pc.equal(old, new), fill_value=False)
    both_null = pc.and_(pc.is_null(old), pc.is_null(new))
    different: Bools = np.asarray(pc.invert(pc.or_(same, both_null)).to_numpy(), np.bool_)
    return different


def _recategorised(before: pa.Table, after: pa.Table) -> Bools:
    """Return where the sets of categories differ; their order does not count."""
    texts = [pc.binary_join(rows.column(entity.CATEGORIES), _BETWEEN) for rows in (before, after)]
    differs = np.array(pc.not_equal(*texts).to_numpy(), np.bool_)
    for place in np.flatnonzero(differs).tolist():
        old, new = (set(text[place].as_py().split(_BETWEEN)) for text in texts)
        differs[place] = old != new
    return differs
