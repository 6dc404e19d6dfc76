"""Salts: how the pairs of one reference are spread over tasks when there are very many.

A join brings all rows of a key into one task. A zone that contains a third of a city has that
many related pairs, so they get a second key, and whoever asks for such a reference asks once
for each salt.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.related import ENTITY, REFERENCE, SALT

HEAVY_PAIRS: Final = 4096
SALTS: Final = 64

_IS_HEAVY: Final = "isHeavy"


def heavy_references(pairs: DataFrame) -> DataFrame:
    """References with more pairs than one task should have to itself."""
    counted = pairs.groupBy(REFERENCE).count()
    return counted.where(F.col("count") > HEAVY_PAIRS).select(REFERENCE)


def salted_pairs(pairs: DataFrame, heavy: DataFrame) -> DataFrame:
    """The pairs with a salt: always 0 for a reference that is not heavy."""
    salt = F.when(F.col(_IS_HEAVY), spread(F.col(ENTITY), SALTS)).otherwise(F.lit(0))
    marked = pairs.join(_marked(heavy), on=REFERENCE, how="left")
    return marked.select(*pairs.columns, salt.cast("int").alias(SALT))


def salted_references(references: DataFrame, heavy: DataFrame) -> DataFrame:
    """The references with every salt that their pairs can have."""
    every_salt = F.sequence(F.lit(0), F.lit(SALTS - 1))
    salts = F.when(F.col(_IS_HEAVY), every_salt).otherwise(F.array(F.lit(0)))
    marked = references.join(_marked(heavy), on=REFERENCE, how="left")
    return marked.select(*references.columns, F.explode(salts).alias(SALT))


def spread(key: Column, salts: int) -> Column:
    """A number from 0 to ``salts`` - 1 that looks random but is always the same for a key."""
    return F.pmod(F.xxhash64(key), F.lit(salts)).cast("int")


def _marked(heavy: DataFrame) -> DataFrame:
    # One in some thousand references at most, so every task can have them all.
    return F.broadcast(heavy.select(REFERENCE, F.expr("true").alias(_IS_HEAVY)))
