"""Tables beside a world that the bulk job keeps from one run to the next.

``relatedPairs``: every ordered pair of entities that share a point, by version and bucket.
``placedEntities``: what a stage looks at of each entity, by version and bucket.
``relatedVersions``: one row for each version whose pairs are complete, written after them: without
it nobody looks at them.
``resolvedMembers``: the members of sets that runs resolved on a version, and a row without a member
for each set, which tells what it is the set of.
"""

from __future__ import annotations

from typing import Final

RELATED_VERSIONS_TABLE: Final = "relatedVersions"
RESOLVED_SETS_TABLE: Final = "resolvedMembers"

REFERENCE: Final = "reference"  # long, peid
ENTITY: Final = "entity"  # long, peid
PAIR_KIND: Final = "pairKind"  # int: DE-9IM matrix of (reference, entity) and both shapes
CATEGORY_SET: Final = "categorySet"  # int: the entity's categories
SHAPE: Final = "shape"  # int: point, closed line, line or area
BUCKET: Final = (
    "bucket"  # int: the part of the world, by a hash of a peid (spatial_udfs/bulk/buckets)
)

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
