"""World versions as Spark reads them: facts, files of entities, and what two of them differ in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.spark_messages import described
from jobs.pipeline.table_places import lake_table
from schemas.entity import (
    CATEGORIES,
    CHECKSUM,
    ENTITIES_TABLE,
    ENTITY_COUNT,
    GEOMETRY,
    KEY,
    NAME,
    PEID,
    SRID,
    VERSION,
    VERSIONS_TABLE,
)
from schemas.errors import WorldError
from schemas.world_places import local_folder
from world.lake.lake_tables import LakeTable, TableFile, counted, files_of, lake_errors
from world.versions.delta_tables import check_table_folder

SHOWN_VERSIONS: Final = 5
_ENTITY_TYPES: Final = f"{PEID} bigint, {CATEGORIES} array<string>, {GEOMETRY} binary"
_STATE_TYPES: Final = f"{PEID} bigint, {CATEGORIES} array<string>, {NAME} string, {GEOMETRY} binary"
_NAMED_TYPES: Final = f"{PEID} bigint, {CATEGORIES} array<string>, {NAME} string, {KEY} string"

# Kinds of changes, and the two sides of a comparison.
KINDS: Final = ("added", "removed", "moved", "recategorised", "renamed")
_OLD: Final = "old"
_NEW: Final = "new"


@dataclass(frozen=True, slots=True)
class WorldVersion:
    """One complete version."""

    spark: SparkSession
    path: str
    version: int
    checksum: str
    entity_count: int
    files: tuple[TableFile, ...]
    commit: int  # of the table of entities
    srid: int  # of the metric CRS

    def table(self, name: str) -> LakeTable:
        """A table beside the entities."""
        return lake_table(self.spark, f"{self.path}/{name}")

    def entities(self, version: int | None = None) -> DataFrame:
        """Peid, categories and geometry (WKB) of this or another version, as Spark reads them."""
        table = self.table(ENTITIES_TABLE)
        files = self.files if version is None else table.files(version)
        return frame_of_files(self.spark, table, files, _ENTITY_TYPES)

    def states(self) -> DataFrame:
        """Peid, categories, name and geometry (WKB): what versions are compared by."""
        table = self.table(ENTITIES_TABLE)
        return frame_of_files(self.spark, table, self.files, _STATE_TYPES)

    def named_entities(self) -> DataFrame:
        """Peid, categories, name and key; the key is null in a version of before there were any."""
        table = self.table(ENTITIES_TABLE)
        return frame_of_files(self.spark, table, self.files, _NAMED_TYPES)


def frame_of_files(
    spark: SparkSession,
    table: LakeTable,
    files: tuple[TableFile, ...] | list[TableFile],
    types: str,
) -> DataFrame:
    """Rows of some files of a table, without asking Spark's Delta for them."""
    if not files:
        return spark.createDataFrame([], types)
    names = [part.split()[0] for part in types.split(", ")]
    paths = [f"{table.uri}/{file.path}" for file in files]
    return spark.read.schema(types).parquet(*paths).select(*names)


def world_id(spark: SparkSession, path: str) -> str:
    """Return the id of the world, as ``WorldStore.world_id`` does; "" where there is no world."""
    folder = path.rstrip("/")
    with lake_errors(folder):
        versions = lake_table(spark, f"{folder}/{VERSIONS_TABLE}").opened()
        return "" if versions is None else str(versions.metadata().id)


def open_world(spark: SparkSession, path: str, version: int | None) -> WorldVersion:
    """The version, the newest when none is given; a WorldError when it is not whole."""
    folder = path.rstrip("/")
    table = lake_table(spark, f"{folder}/{VERSIONS_TABLE}")
    if (local := local_folder(table.uri)) is not None:
        check_table_folder(local)
    with lake_errors(folder):
        rows = table.rows(columns=[VERSION, CHECKSUM, ENTITY_COUNT, SRID])
    if rows is None:
        raise WorldError(f"no world at {folder}: it has no table {VERSIONS_TABLE}")
    known = {row[VERSION]: row for row in rows.to_pylist()}
    chosen = max(known, default=None) if version is None else version
    if chosen is None or chosen not in known:
        shown = ", ".join(str(number) for number in sorted(known)[-SHOWN_VERSIONS:]) or "none"
        raise WorldError(f"world {folder} has no version {chosen} (there: {shown})")
    facts = known[chosen]
    files, commit = _entity_files(spark, folder, chosen, facts[ENTITY_COUNT])
    return WorldVersion(
        spark, folder, chosen, facts[CHECKSUM], facts[ENTITY_COUNT], files, commit, facts[SRID]
    )


def _entity_files(
    spark: SparkSession, folder: str, version: int, expected: int
) -> tuple[tuple[TableFile, ...], int]:
    table = lake_table(spark, f"{folder}/{ENTITIES_TABLE}")
    with lake_errors(f"world {folder} cannot be read"):
        opened = table.opened()
        if opened is None:
            raise WorldError(f"world {folder} cannot be read: it has no table {ENTITIES_TABLE}")
        files = counted(table, files_of(opened, version))
    found = sum(file.rows or 0 for file in files)
    if found != expected:
        raise WorldError(
            f"world {folder}: version {version} should have {expected} entities, "
            f"its table has {found}"
        )
    return tuple(files), opened.version()


def change_counts(old: WorldVersion, new: WorldVersion) -> dict[str, int]:
    """Return how many entities were added, removed, moved, recategorised and renamed.

    They are the counts of ``world.versions.changes.compare_versions``: the order of categories does
    not count, and in another CRS every entity has moved.
    """
    if old.version == new.version:
        return dict.fromkeys(KINDS, 0)
    both = _states(old, _OLD).join(_states(new, _NEW), on=PEID, how="full")
    was, is_now = F.col(_OLD).isNotNull(), F.col(_NEW).isNotNull()
    stays = was & is_now
    moved = _differs(GEOMETRY) if old.srid == new.srid else F.lit(True)  # noqa: FBT003 - a value
    kinds = dict(
        zip(
            KINDS,
            (~was, ~is_now, stays & moved, stays & _differs(CATEGORIES), stays & _differs(NAME)),
            strict=True,
        )
    )
    with described(new.spark, f"compare versions {old.version} and {new.version}"):
        [row] = both.agg(
            *(F.count_if(holds).alias(kind) for kind, holds in kinds.items())
        ).collect()
    return {kind: int(row[kind]) for kind in KINDS}


def differing_entities(old: WorldVersion, new: WorldVersion) -> DataFrame:
    """Return entities that only one version has, or that differ, as the new one has them."""
    before = old.entities().select(PEID, _digests().alias(_OLD))
    now = new.entities().select(PEID, CATEGORIES, GEOMETRY, _digests().alias(_NEW))
    both = before.join(now, on=PEID, how="full")
    return both.where(~F.col(_OLD).eqNullSafe(F.col(_NEW))).select(PEID, CATEGORIES, GEOMETRY)


def _digests(*more: str) -> Column:
    """Return geometry and categories as they are compared, and other columns as they are."""
    # Digests, because a join sends what it compares from task to task.
    return F.struct(
        F.sha2(GEOMETRY, 256).alias(GEOMETRY),
        F.array_sort(F.array_distinct(CATEGORIES)).alias(CATEGORIES),
        *more,
    )


def _states(world: WorldVersion, side: str) -> DataFrame:
    """Return what decides about each entity, as one column: geometries by their digests."""
    return world.states().select(PEID, _digests(NAME).alias(side))


def _differs(name: str) -> Column:
    return ~F.col(f"{_OLD}.{name}").eqNullSafe(F.col(f"{_NEW}.{name}"))
