"""Entities as tables have them: names and meaning of a world's tables and columns, and keys.

The Arrow types are in the code that writes the tables.

``entities``: one row for each entity and version, partitioned by version.
``versions``: one row for each complete version, written last. Readers ignore a version without its
row, even if ``entities`` has rows of it.
``problems``: every input row that was left out of a version, or kept with a problem.

The bulk job keeps four more tables beside them from one run to the next:

``relatedPairs``: every ordered pair of entities that share a point, by version and bucket.
``placedEntities``: shape, categories and geometry of each entity, by version and bucket.
``relatedVersions``: one row for each version whose pairs are complete, written after them. Pairs
without it are ignored.
``resolvedMembers``: the members of sets that runs resolved on a version, and for each set a row
without a member that identifies the set.

A key is the identifier that a source gives to an entity: a text of 1 to 1,024 printable characters
without space at its ends. A key that is a whole number of 0 .. 2^63-1 in its shortest decimal form
is its own peid. Every other key is hashed (see ``peid_of_key``), so a key has the same peid in
every version and in every order of sources.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from schemas.language.limits import MAX_PEID

ENTITIES_TABLE: Final = "entities"
VERSIONS_TABLE: Final = "versions"
PROBLEMS_TABLE: Final = "problems"

VERSION: Final = "version"  # long, counts from 1
PEID: Final = "peid"  # long, 0 .. 2^63-1
CATEGORIES: Final = "categories"  # list<string>, not empty
NAME: Final = "name"  # string or null
GEOMETRY: Final = "geometry"  # binary, WKB in the version's metric CRS
# string: the identifier of the source, unique; null in a version of before there were keys
KEY: Final = "key"

SRID: Final = "srid"  # int, EPSG code of the version's metric CRS
CREATED_AT: Final = "createdAt"  # timestamp, UTC
SOURCES: Final = "sources"  # list<struct<path: string, kind: string, sha256: string, bytes: long>>
RULES_SHA256: Final = "rulesSha256"  # string: checksum of rules and options
ENTITY_COUNT: Final = "entityCount"  # long
PROBLEM_COUNTS: Final = "problemCounts"  # map<string, long>
CHECKSUM: Final = "checksum"  # string: of the content, independent of the writer

# Columns of ``problems``, beside VERSION and PEID (null if the input has no usable one).
PROBLEM_KIND: Final = "kind"  # string: duplicate-identical, broken-geometry, …
KEPT: Final = "kept"  # boolean: whether the entity is in the version anyway
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
# int: the part of the world, by a hash of a peid (spatial_udfs/bulk/buckets.py)
BUCKET: Final = "bucket"

METHOD: Final = "method"  # int: raised when pairs are computed in a way that may differ
PAIR_COUNT: Final = "pairCount"  # long
PAIR_KINDS: Final = "pairKinds"  # list<int>: the kinds that occur
BUCKETS: Final = "buckets"  # int: the number of buckets of pairs and entities
# boolean: pairs of this reference are in the buckets of the entities at their other end
HEAVY: Final = "heavy"
ENGINE: Final = "engine"  # string: the version of GEOS, which computes the matrices
DIAMETER: Final = "diameter"  # double: upper bound of the distance of two entities, in metres
DERIVED_FROM: Final = "derivedFrom"  # long or null: the version whose pairs were taken over

VOCABULARY: Final = "categorySets"  # list<list<string>>: the categories of each set, by its number

NODE: Final = "node"  # long: a set of entities, by a hash of what defines it
PROOF: Final = "proof"  # long: a second, independent hash of the same
RUN: Final = "run"  # long: identifies the run that wrote the row


MAX_KEY_CHARACTERS: Final = 1_024
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


def peid_of_key(key: str) -> int:
    """Return the peid of an entity whose source has no peids.

    It is the number that the key is, else the first 63 bits of the 8-byte BLAKE2b digest of the key
    in UTF-8, read as a big-endian number.
    """
    number = number_of_key(key)
    if number is not None:
        return number
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def number_of_key(key: str) -> int | None:
    """Return the number that a key is; None for a key that must be hashed, such as ``007``."""
    if not _NUMBER.fullmatch(key):
        return None
    number = int(key)
    return number if number <= MAX_PEID else None


def is_hashed(key: str, peid: int) -> bool:
    """Return whether the peid was made from the key by the hash."""
    return number_of_key(key) is None and peid_of_key(key) == peid


def key_fault(key: str) -> str | None:
    """Return why a text, without space at its ends, cannot be a key; None if it can."""
    if not key:
        return "is empty"
    if len(key) > MAX_KEY_CHARACTERS:
        return f"is longer than {MAX_KEY_CHARACTERS:,} characters"
    if not key.isprintable():
        return f"{key[:60]!r} has a character that cannot be printed"
    return None
