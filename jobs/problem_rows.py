"""What did not go as a subscriber meant it: subscriptions without result, and remarks on others."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.compiled_batch import SUB_IDS, CompiledBatch
from jobs.subscription_lines import REASON, WHERE
from schemas.errors import NoReferenceError
from schemas.membership import SUB_ID
from schemas.related import ENTITY, NODE, REFERENCE

KIND: Final = "kind"
# Kinds of problems; the first three leave a subscription without result.
UNREADABLE: Final = "unreadable"
WRONG_DESCRIPTOR: Final = "wrong descriptor"
NO_REFERENCE: Final = "no reference"
MISSING_REFERENCE: Final = "missing reference"
ALWAYS_EMPTY: Final = "always empty"
UNRESOLVED: Final = (UNREADABLE, WRONG_DESCRIPTOR, NO_REFERENCE)

PROBLEM_FIELDS: Final = (KIND, WHERE, SUB_ID, REASON)
_SHOWN_REFERENCES: Final = 5
_MISSING: Final = "missing"


def problem_rows(
    bad_lines: DataFrame, batch: CompiledBatch, references: DataFrame, version: int
) -> DataFrame:
    """Rows (kind, where, subId, reason); ``references`` are the existing ones, by node."""
    missing = _missing_references(batch, references)
    parts = [
        bad_lines.select(F.lit(UNREADABLE).alias(KIND), WHERE, SUB_ID, REASON),
        _of_descriptors(
            batch.descriptors.where(F.col("error").isNotNull()), WRONG_DESCRIPTOR, F.col("error")
        ),
        _of_descriptors(missing.where(_none_left()), NO_REFERENCE, _no_reference(version)),
        _of_descriptors(missing.where(~_none_left()), MISSING_REFERENCE, _some_missing(version)),
        _of_descriptors(
            batch.descriptors.select(SUB_IDS, F.explode("warnings").alias("warning")),
            ALWAYS_EMPTY,
            F.col("warning"),
        ),
    ]
    return reduce(DataFrame.unionByName, parts)


def _missing_references(batch: CompiledBatch, references: DataFrame) -> DataFrame:
    """Descriptors with at least one reference that does not exist, and which."""
    existing = references.select(NODE, F.col(ENTITY).alias(REFERENCE))
    absent = batch.references().join(existing, on=[NODE, REFERENCE], how="left_anti")
    by_node = absent.groupBy(NODE).agg(F.sort_array(F.collect_list(REFERENCE)).alias(_MISSING))
    bases = batch.descriptors.select(SUB_IDS, "refs", F.col(f"base.{NODE}").alias(NODE))
    return bases.join(by_node, on=NODE, how="inner")


def _none_left() -> Column:
    return F.size(_MISSING) == F.size("refs")


def _no_reference(version: int) -> Column:
    """The sentence of NoReferenceError, which a live subscriber gets."""
    start = str(NoReferenceError((), version))
    return F.concat(F.lit(start), _listed())


def _some_missing(version: int) -> Column:
    return F.concat(F.lit(f"not in world version {version}: "), _listed())


def _listed() -> Column:
    first = F.array_join(F.slice(_MISSING, 1, _SHOWN_REFERENCES).cast("array<string>"), ", ")
    more = F.when(F.size(_MISSING) > _SHOWN_REFERENCES, F.lit(" …")).otherwise(F.lit(""))
    return F.concat(first, more)


def _of_descriptors(descriptors: DataFrame, kind: str, reason: Column) -> DataFrame:
    """One row for each subscription that has such a descriptor."""
    each = descriptors.select(F.explode(SUB_IDS).alias(SUB_ID), reason.alias(REASON))
    where = F.concat(F.lit("subId "), SUB_ID).alias(WHERE)
    return each.select(F.lit(kind).alias(KIND), where, SUB_ID, REASON)
