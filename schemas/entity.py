"""Names and meaning of the world tables' columns. Types stand with the code that writes them.

``entities``: one row for each entity and version, partitioned by version.
``versions``: one row for each complete version, written last: a version without its row
does not exist for any reader, whatever lies in ``entities``.
``problems``: every input row that was left out of a version, or kept with a remark.
"""

from __future__ import annotations

from typing import Final

ENTITIES_TABLE: Final = "entities"
VERSIONS_TABLE: Final = "versions"
PROBLEMS_TABLE: Final = "problems"
# Made by the bulk job: related pairs of one world version with their DE-9IM matrices.
RELATED_TABLE: Final = "relatedPairs"
# Made by the bulk job too: shape and categories of each entity as numbers, by bucket.
PLACED_TABLE: Final = "placedEntities"

VERSION: Final = "version"  # long, counts from 1
PEID: Final = "peid"  # long, 0 .. 2^63-1
CATEGORIES: Final = "categories"  # list<string>, not empty
NAME: Final = "name"  # string or null
GEOMETRY: Final = "geometry"  # binary, WKB in the version's metric CRS

ENTITY_COLUMNS: Final = (VERSION, PEID, CATEGORIES, NAME, GEOMETRY)

SRID: Final = "srid"  # int, EPSG code of the version's metric CRS
CREATED_AT: Final = "createdAt"  # timestamp, UTC
SOURCES: Final = "sources"  # list<struct<path: string, kind: string, sha256: string, bytes: long>>
RULES_SHA256: Final = "rulesSha256"  # string: checksum of rules and options, part of "the same"
ENTITY_COUNT: Final = "entityCount"  # long
PROBLEM_COUNTS: Final = "problemCounts"  # map<string, long>
CHECKSUM: Final = "checksum"  # string: of the content, the same however it was written

VERSION_COLUMNS: Final = (
    VERSION, SRID, CREATED_AT, SOURCES, RULES_SHA256, ENTITY_COUNT, PROBLEM_COUNTS, CHECKSUM,
)  # fmt: skip

# Columns of ``problems``, beside VERSION and PEID (null where the input has no usable one).
PROBLEM_KIND: Final = "kind"  # string: duplicate-identical, broken-geometry, …
KEPT: Final = "kept"  # boolean: whether the entity is in the version all the same
SOURCE: Final = "source"  # string: path of the source
LOCATOR: Final = "locator"  # string: where in the source (row 17, feature 3, way 4711)
REASON: Final = "reason"  # string: what is wrong, for a person

PROBLEM_COLUMNS: Final = (VERSION, PROBLEM_KIND, KEPT, PEID, SOURCE, LOCATOR, REASON)
