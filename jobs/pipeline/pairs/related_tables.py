"""Related pairs of a world version, kept beside the world: computed once, reused by every run.

A version whose pairs are not there yet takes over those of an earlier one wherever both ends
have the same geometry, and joins only what changed. Pairs and entities are committed first and
the row in ``relatedVersions`` last, so a killed run leaves nothing that anybody would read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import shapely

from jobs.pipeline.exchange import Tasks
from jobs.pipeline.pairs.related_build import RelatedBuild, build_related
from jobs.pipeline.pairs.world_buckets import FilesByBucket, WorldBuckets
from jobs.pipeline.spark_messages import stage_progress
from jobs.pipeline.world_tables import WorldVersion
from schemas.entity import (
    BUCKET,
    BUCKETS,
    CHECKSUM,
    CREATED_AT,
    DERIVED_FROM,
    DIAMETER,
    ENGINE,
    METHOD,
    PAIR_COUNT,
    PAIR_KINDS,
    PLACED_TABLE,
    RELATED_TABLE,
    RELATED_VERSIONS_TABLE,
    VERSION,
    VOCABULARY,
)
from schemas.errors import WorldError
from spatial_udfs.bulk.category_sets import Vocabulary
from world.lake.bulk_tables import PAIRS, PLACED, RELATED_VERSIONS, WORLD_PARTITIONS, in_world
from world.lake.lake_tables import LakeTable, NewFile, lake_errors

# Raise it whenever pairs or kinds could come out differently from before.
CURRENT_METHOD: Final = 7
# Another GEOS may compute other matrices.
GEOS: Final = f"GEOS {shapely.geos_version_string}"


@dataclass(frozen=True, slots=True, eq=False)
class RelatedWorld:
    """The pairs of a world version that share a point, as a run uses them."""

    buckets: WorldBuckets
    # The categories of each set, by its number.
    vocabulary: Vocabulary
    pair_kinds: tuple[int, ...]
    pair_count: int
    diameter: float
    origin: str


def ensure_related(tasks: Tasks, world: WorldVersion, say: Callable[[str], None]) -> RelatedWorld:
    """Return the related pairs of the version; compute and keep them if no run has done so."""
    markers = world.table(RELATED_VERSIONS_TABLE)
    known = _usable_markers(markers)
    marker = known.get(world.version)
    if marker is not None and marker[CHECKSUM] == world.checksum:
        return _opened(world, marker, "reused")
    if marker is not None:
        # What an older state of the version left must not vouch for the rows that come now.
        _forget(markers, world.version)
    earlier = [known[number] for number in known if number != world.version]
    base = max(earlier, key=lambda row: int(row[VERSION]), default=None)
    say("no related pairs of this version yet: joining all that share a point")
    with stage_progress(tasks.spark, "related pairs", say):
        build = build_related(tasks, world, None if base is None else int(base[VERSION]))
    marker = _marker(world, build)
    try:
        _commit(world, build, marker)
    except WorldError:
        # Another run may have been quicker with the same; then there is no need of ours.
        now = _usable_markers(markers).get(world.version)
        if now is None or now[CHECKSUM] != world.checksum:
            raise
        return _opened(world, now, "reused")
    derived = build.derived_from
    return _related(
        world,
        marker,
        "computed" if derived is None else f"derived from version {derived}",
        _new_files(build.pair_files),
        _new_files(build.placed_files),
    )


def find_related(world: WorldVersion) -> RelatedWorld | None:
    """Return the related pairs of the version if a run has kept them."""
    marker = _usable_markers(world.table(RELATED_VERSIONS_TABLE)).get(world.version)
    if marker is None or marker[CHECKSUM] != world.checksum:
        return None
    found = _opened(world, marker, "reused")
    # A removal takes the marker first, and then the files in one commit.
    return found if found.buckets.placed_files or not world.entity_count else None


def _commit(world: WorldVersion, build: RelatedBuild, marker: dict[str, Any]) -> None:
    for name, files, schema in (
        (RELATED_TABLE, build.pair_files, PAIRS),
        (PLACED_TABLE, build.placed_files, PLACED),
    ):
        table = world.table(name)
        table.replace_version(world.version, files, in_world(schema), WORLD_PARTITIONS)
    row = pa.Table.from_pylist([marker], schema=RELATED_VERSIONS)
    world.table(RELATED_VERSIONS_TABLE).append_rows(row)


def _usable_markers(table: LakeTable) -> dict[int, dict[str, Any]]:
    with lake_errors(table.uri):
        rows = table.rows()
    if rows is None:
        return {}
    same = (CURRENT_METHOD, GEOS)
    usable = [row for row in rows.to_pylist() if (row.get(METHOD), row.get(ENGINE)) == same]
    return {row[VERSION]: row for row in sorted(usable, key=lambda row: row[CREATED_AT])}


def _forget(table: LakeTable, version: int) -> None:
    with lake_errors(table.uri):
        opened = table.opened()
        if opened is not None:
            opened.delete(f"{VERSION} = {version}")


def _marker(world: WorldVersion, build: RelatedBuild) -> dict[str, Any]:
    return {
        VERSION: world.version,
        CHECKSUM: world.checksum,
        METHOD: CURRENT_METHOD,
        ENGINE: GEOS,
        PAIR_COUNT: build.pair_count,
        PAIR_KINDS: list(build.pair_kinds),
        BUCKETS: build.buckets,
        DIAMETER: build.survey.diameter,
        DERIVED_FROM: build.derived_from,
        VOCABULARY: build.survey.vocabulary,
        CREATED_AT: datetime.now(UTC),
    }


def _opened(world: WorldVersion, marker: dict[str, Any], origin: str) -> RelatedWorld:
    files = [_table_files(world, name) for name in (RELATED_TABLE, PLACED_TABLE)]
    return _related(world, marker, origin, *files)


def _related(
    world: WorldVersion,
    marker: dict[str, Any],
    origin: str,
    pair_files: FilesByBucket,
    placed_files: FilesByBucket,
) -> RelatedWorld:
    return RelatedWorld(
        buckets=WorldBuckets(
            buckets=marker[BUCKETS],
            related=world.table(RELATED_TABLE),
            pair_files=pair_files,
            placed=world.table(PLACED_TABLE),
            placed_files=placed_files,
        ),
        vocabulary=marker[VOCABULARY],
        pair_kinds=tuple(marker[PAIR_KINDS]),
        pair_count=marker[PAIR_COUNT],
        diameter=marker[DIAMETER],
        origin=origin,
    )


def _table_files(world: WorldVersion, name: str) -> FilesByBucket:
    table = world.table(name)
    with lake_errors(table.uri):
        files = table.files(world.version)
    if any(file.bucket is None for file in files):
        raise WorldError(f"{table.uri}: files without a bucket")
    return _by_bucket((file.bucket or 0, file.path) for file in files)


def _new_files(files: Iterable[NewFile]) -> FilesByBucket:
    return _by_bucket((int(dict(file.partition)[BUCKET]), file.path) for file in files)


def _by_bucket(files: Iterable[tuple[int, str]]) -> FilesByBucket:
    found: dict[int, tuple[str, ...]] = {}
    for bucket, path in sorted(files):
        found[bucket] = (*found.get(bucket, ()), path)
    return found
