"""Names and meaning of the tables of a world and their columns.

Types stand with the code that writes them.

``entities``: one row for each entity and version, partitioned by version.
``versions``: one row for each complete version, written last: a version without its row
does not exist for any reader, whatever lies in ``entities``.
``problems``: every input row that was left out of a version, or kept with a remark.

The bulk job keeps four more tables beside them from one run to the next:

``relatedPairs``: every ordered pair of entities that share a point, by version and bucket.
``placedEntities``: what a stage looks at of each entity, by version and bucket.
``relatedVersions``: one row for each version whose pairs are complete, written after them: without
it nobody looks at them.
``resolvedMembers``: the members of sets that runs resolved on a version, and a row without a member
for each set, which tells what it is the set of.
"""

from __future__ import annotations

from typing import Final

ENTITIES_TABLE: Final = "entities"
VERSIONS_TABLE: Final = "versions"
PROBLEMS_TABLE: Final = "problems"

VERSION: Final = "version"  # long, counts from 1
PEID: Final = "peid"  # long, 0 .. 2^63-1
CATEGORIES: Final = "categories"  # list<string>, not empty
NAME: Final = "name"  # string or null
GEOMETRY: Final = "geometry"  # binary, WKB in the version's metric CRS

SRID: Final = "srid"  # int, EPSG code of the version's metric CRS
CREATED_AT: Final = "createdAt"  # timestamp, UTC
SOURCES: Final = "sources"  # list<struct<path: string, kind: string, sha256: string, bytes: long>>
RULES_SHA256: Final = "rulesSha256"  # string: checksum of rules and options, part of "the same"
ENTITY_COUNT: Final = "entityCount"  # long
PROBLEM_COUNTS: Final = "problemCounts"  # map<string, long>
CHECKSUM: Final = "checksum"  # string: of the content, the same however it was written

# Columns of ``problems``, beside VERSION and PEID (null where the input has no usable one).
PROBLEM_KIND: Final = "kind"  # string: duplicate-identical, broken-geometry, …
KEPT: Final = "kept"  # boolean: whether the entity is in the version all the same
SOURCE: Final = "source"  # string: path of the source
LOCATOR: Final = "locator"  # string: where in the source (row 17, feature 3, way 4711)
REASON: Final = "reason"  # string: what is wrong, for a person

# Tables of the bulk job.
RELATED_TABLE: Final = "relatedPairs"
PLACED_TABLE: Final = "placedEntities"
RELATED_VERSIONS_TABLE: Final = "relatedVersions"
RESOLVED_SETS_TABLE: Final = "resolvedMembers"

REFERENCE: Final = "reference"  # long, peid
ENTITY: Final = "entity"  # long, peid
PAIR_KIND: Final = "pairKind"  # int: DE-9IM matrix of (reference, entity) and both shapes
CATEGORY_SET: Final = "categorySet"  # int: the entity's categories
SHAPE: Final = "shape"  # int: point, closed line, line or area
# int: the part of the world, by a hash of a peid (spatial_udfs/bulk/buckets)
BUCKET: Final = "bucket"

METHOD: Final = "method"  # int: raised when pairs are computed in a way that may differ
PAIR_COUNT: Final = "pairCount"  # long
PAIR_KINDS: Final = "pairKinds"  # list<int>: those that occur
BUCKETS: Final = "buckets"  # int: in how many parts pairs and entities are held
# list<struct<peid, shape, categorySet>>: those whose pairs lie in the buckets of their other ends
HEAVY: Final = "heavyEntities"
DIAMETER: Final = "diameter"  # double: no two entities are further apart, in metres
DERIVED_FROM: Final = "derivedFrom"  # long or null: the version whose pairs were taken over

VOCABULARY: Final = "categorySets"  # list<list<string>>: the categories of each set, by its number

NODE: Final = "node"  # long: a set of entities, by a hash of what defines it
PROOF: Final = "proof"  # long: a second, independent hash of the same
RUN: Final = "run"  # long: tells the rows of one run from those of another
