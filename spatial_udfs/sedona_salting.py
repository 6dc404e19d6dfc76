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
# When more than these are heavy, none of them is a large part of the work.
MOST_HEAVY: Final = 1000
SALTS: Final = 64
CROWDED: Final = "crowded"  # Boolean: the reference of a pair may be heavy


def heavy_references(pairs: DataFrame) -> DataFrame:
    """References with more pairs than one task should have to itself, the heaviest of them.

    Only CROWDED pairs are counted. A reference whose pairs are few wherever it has any may be
    missed, unless it has some times HEAVY_PAIRS.
    """
    counted = pairs.where(CROWDED).groupBy(REFERENCE).count().where(F.col("count") > HEAVY_PAIRS)
    return counted.orderBy(F.desc("count"), REFERENCE).limit(MOST_HEAVY).select(REFERENCE)


def salted_pairs(pairs: DataFrame, heavy: tuple[int, ...]) -> DataFrame:
    """The pairs with a salt: always 0 for a reference that is not heavy."""
    salt = F.when(_is_heavy(heavy), spread(F.col(ENTITY), SALTS)).otherwise(F.lit(0))
    return pairs.withColumn(SALT, salt.cast("int"))


def salted_references(references: DataFrame, heavy: tuple[int, ...]) -> DataFrame:
    """The references with every salt that their pairs can have."""
    if not heavy:
        return references.withColumn(SALT, F.lit(0))
    every_salt = F.sequence(F.lit(0), F.lit(SALTS - 1))
    salts = F.when(_is_heavy(heavy), every_salt).otherwise(F.array(F.lit(0)))
    return references.withColumn(SALT, F.explode(salts))


def spread(key: Column, parts: int) -> Column:
    """A number from 0 to ``parts`` - 1 that looks random but is always the same for a key."""
    return F.pmod(F.xxhash64(key), F.lit(parts)).cast("int")


def _is_heavy(heavy: tuple[int, ...]) -> Column:
    return F.col(REFERENCE).isin(*heavy)
