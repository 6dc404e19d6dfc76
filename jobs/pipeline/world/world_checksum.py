"""The checksum of ``world.versions.version_tables`` as Spark columns: the same digits."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name that all of Spark's own pages use

from schemas import entity

LANES: Final = 4
LANE_DIGITS: Final = 16
WRAP: Final = 2**64


def count_and_checksum(entities: DataFrame) -> tuple[int, str]:
    """The number of rows, and the checksum of all of them as 64 hexadecimal digits."""
    digests = entities.select(F.sha2(F.encode(_row_text(), "UTF-8"), 256).alias("digest"))
    sums = [F.sum(_lane(lane)) for lane in range(LANES)]
    count, *lanes = digests.agg(F.count("*"), *sums).collect()[0]
    return count, "".join(f"{int(lane or 0) % WRAP:016x}" for lane in lanes)


def _lane(lane: int) -> Column:
    """One quarter of the digest as a number: decimal, because Spark has no unsigned 64 bits."""
    digits = F.substring("digest", lane * LANE_DIGITS + 1, LANE_DIGITS)
    return F.conv(digits, 16, 10).cast("decimal(20, 0)")


def _row_text() -> Column:
    """What ``world.versions.version_tables._row_texts`` writes."""
    categories = F.array_join(F.transform(entity.CATEGORIES, _with_length), "")
    name = F.coalesce(_with_length(F.col(entity.NAME)), F.lit(""))
    peid = F.col(entity.PEID).cast("string")
    has_own_key = F.col(entity.KEY) != peid
    key = F.when(has_own_key, _with_length(F.col(entity.KEY)))
    # A key that is null is left out by concat_ws.
    return F.concat_ws("|", peid, categories, name, F.hex(entity.GEOMETRY), key)


def _with_length(text: Column) -> Column:
    return F.concat(F.char_length(text).cast("string"), F.lit(":"), text)
