"""Loads a world version from Delta into memory, with its geometries or without; needs no Spark."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from shapely.errors import ShapelyError

from schemas import entity
from schemas.errors import WorldError
from spatial_udfs.entity_keys import stored_keys
from spatial_udfs.entity_table import EntityTable, Geometries
from world.versions.store import WorldStore
from world.versions.version_tables import VersionFacts

ATTRIBUTES: Final = (entity.PEID, entity.CATEGORIES, entity.NAME, entity.KEY)


def load_snapshot(world: str, version: int | None = None) -> EntityTable:
    """Return one version of the world; the newest if none is given."""
    store = WorldStore(world)
    facts = store.facts_of(version)
    rows = store.entities(facts.version)
    if rows.num_rows != facts.entity_count:
        raise WorldError(
            f"world {world}: version {facts.version} should have {facts.entity_count} "
            f"entities, its table has {rows.num_rows}"
        )
    try:
        return entity_table(rows, facts)
    except ShapelyError as error:
        reason = " ".join(str(error).split())
        raise WorldError(
            f"world {world}: version {facts.version} has broken geometry: {reason}"
        ) from error


def load_attributes(world: str, version: int | None = None) -> EntityTable:
    """Return one version without reading its geometries: each is None."""
    store = WorldStore(world)
    facts = store.facts_of(version)
    rows = store.entities(facts.version, ATTRIBUTES)
    return entity_table(rows, facts, np.full(rows.num_rows, None, object))


def entity_table(
    rows: pa.Table, facts: VersionFacts, geometries: Geometries | None = None
) -> EntityTable:
    """Return the rows of one version as arrays, sorted by peid.

    ``geometries`` are the rows' geometries, if the caller has them as objects already.
    """
    peids = rows.column(entity.PEID).to_numpy()
    if len(peids) > 1 and not bool(np.all(peids[1:] > peids[:-1])):
        order = pc.sort_indices(rows.column(entity.PEID))
        rows = rows.take(order)
        geometries = None if geometries is None else geometries[order.to_numpy()]
        peids = rows.column(entity.PEID).to_numpy()
    if geometries is None:
        geometries = shapely.from_wkb(rows.column(entity.GEOMETRY).to_numpy())
    keys = _one_chunk(rows.column(entity.KEY), pa.string())
    categories = _one_chunk(rows.column(entity.CATEGORIES), pa.list_(pa.string()))
    coded = categories.flatten().dictionary_encode()
    return EntityTable(
        version=facts.version,
        srid=facts.srid,
        peids=peids.astype(np.int64),
        geometries=geometries,
        names=rows.column(entity.NAME).to_numpy(),
        category_names=tuple(coded.dictionary.to_pylist()),
        category_offsets=np.concatenate(
            [[0], np.cumsum(pc.list_value_length(categories).to_numpy())]
        ).astype(np.int64),
        category_codes=coded.indices.to_numpy().astype(np.int32),
        keys=stored_keys(keys, peids),
    )


def _one_chunk(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    combined = column.cast(kind).combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return combined.chunk(0) if combined.num_chunks else pa.array([], kind)
    return combined
