"""Category patterns as data: which category sets of a world a set of patterns selects.

A pattern meets only the category names that begin with its literal levels, so thousands of
patterns against thousands of names are a join and no cross product.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.categories import ANY_BELOW, ONE_LEVEL, SEPARATOR
from schemas.entity import CATEGORIES
from schemas.related import CATEGORY_SET

CATS: Final = "cats"  # int, the number of a set of patterns in this batch

_PATTERN: Final = "pattern"
_NAME: Final = "name"
_PREFIX: Final = "prefix"
_WILDCARDS: Final = (ANY_BELOW, ONE_LEVEL)


def numbered_patterns(patterns: DataFrame) -> DataFrame:
    """Number distinct sets of patterns (arrays in a column CATEGORIES)."""
    number = F.row_number().over(Window.orderBy(CATEGORIES))
    return patterns.select(CATEGORIES, number.alias(CATS))


def selected_sets(numbered: DataFrame, category_sets: DataFrame) -> DataFrame:
    """Rows (set of patterns, category set) where a pattern matches one of the categories."""
    wanted = numbered.select(CATS, F.explode(CATEGORIES).alias(_PATTERN))
    named = category_sets.select(CATEGORY_SET, F.explode(CATEGORIES).alias(_NAME))
    matches = matching_names(wanted.select(_PATTERN).distinct(), named.select(_NAME).distinct())
    return (
        wanted.join(matches, on=_PATTERN, how="inner")
        .join(named, on=_NAME, how="inner")
        .select(CATS, CATEGORY_SET)
        .distinct()
    )


def matching_names(patterns: DataFrame, names: DataFrame) -> DataFrame:
    """Rows (pattern, name) where the pattern matches, as ``schemas.categories`` defines it."""
    by_literal = patterns.select(_PATTERN, _literal_prefix(_levels(_PATTERN)).alias(_PREFIX))
    by_prefix = names.select(_NAME, F.explode(_prefixes(_levels(_NAME))).alias(_PREFIX))
    met = by_literal.join(by_prefix, on=_PREFIX, how="inner")
    return met.where(_matches(_levels(_PATTERN), _levels(_NAME))).select(_PATTERN, _NAME)


def _levels(name: str) -> Column:
    # A regular expression to Spark, but this one stands for itself.
    return F.split(F.col(name), SEPARATOR, -1)


def _literal_prefix(levels: Column) -> Column:
    """The levels before the first wildcard, as text; "" when there is none."""
    places = [F.array_position(levels, wildcard) for wildcard in _WILDCARDS]
    first = F.array_min(F.filter(F.array(*places), lambda place: place > 0))
    length = F.coalesce(first - 1, F.size(levels).cast("bigint")).cast("int")
    return F.array_join(F.slice(levels, 1, length), SEPARATOR)


def _prefixes(levels: Column) -> Column:
    """Every beginning of a name, from nothing to all of it."""
    lengths = F.sequence(F.lit(0), F.size(levels))
    return F.transform(
        lengths, lambda length: F.array_join(F.slice(levels, F.lit(1), length), SEPARATOR)
    )


def _matches(pattern: Column, name: Column) -> Column:
    open_end = F.element_at(pattern, -1) == ANY_BELOW
    length = F.size(pattern) - open_end.cast("int")
    long_enough = F.when(open_end, F.size(name) >= length).otherwise(F.size(name) == length)
    level_by_level = F.zip_with(
        F.slice(pattern, F.lit(1), length),
        F.slice(name, F.lit(1), length),
        lambda wanted, level: (wanted == ONE_LEVEL) | wanted.eqNullSafe(level),
    )
    return long_enough & F.forall(level_by_level, lambda fits: fits)
