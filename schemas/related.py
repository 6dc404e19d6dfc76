"""Tables beside a world that the bulk job keeps from one run to the next.

``related``: every ordered pair of entities that share a point, partitioned by version.
``relatedCategorySets``: the distinct sets of categories of a version, numbered.
``relatedVersions``: one row for each version whose rows in the two others are complete, written
last: without it nobody looks at them.
"""

from __future__ import annotations

from typing import Final

from schemas.entity import CHECKSUM, CREATED_AT, VERSION

CATEGORY_SETS_TABLE: Final = "relatedCategorySets"
RELATED_VERSIONS_TABLE: Final = "relatedVersions"

REFERENCE: Final = "reference"  # long, peid
ENTITY: Final = "entity"  # long, peid
SALT: Final = "salt"  # int: spreads the pairs of a reference that has very many of them
PAIR_KIND: Final = "pairKind"  # int: DE-9IM matrix of (reference, entity) and both shapes
CATEGORY_SET: Final = "categorySet"  # int: the entity's categories

RELATED_COLUMNS: Final = (VERSION, REFERENCE, SALT, ENTITY, PAIR_KIND, CATEGORY_SET)

METHOD: Final = "method"  # int: raised when pairs are computed in a way that may differ
PAIR_COUNT: Final = "pairCount"  # long
PAIR_KINDS: Final = "pairKinds"  # list<int>: those that occur
HEAVY: Final = "heavyReferences"  # list<long>: those that have salts
DIAMETER: Final = "diameter"  # double: no two entities are further apart, in metres
DERIVED_FROM: Final = "derivedFrom"  # long or null: the version whose pairs were taken over

RELATED_VERSION_COLUMNS: Final = (
    VERSION, CHECKSUM, METHOD, PAIR_COUNT, PAIR_KINDS, HEAVY, DIAMETER, DERIVED_FROM, CREATED_AT,
)  # fmt: skip
