"""Subscriptions as Spark reads them: good ones as texts, bad ones with the reason.

A line in the usual form is taken apart by a regular expression, so that equal descriptors can
be found before any of them is parsed. Every other line goes through the strict reader, which
also says what is wrong with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses
from pyspark.storagelevel import StorageLevel

from jobs.delta_tables import is_table
from jobs.spark_errors import spark_errors_as
from schemas.descriptor_json import descriptor_json
from schemas.errors import SourceError, SpapsError
from schemas.limits import MAX_DESCRIPTOR_BYTES
from schemas.membership import DESCRIPTOR, SUB_ID
from schemas.subscription_line import parse_subscription

WHERE: Final = "where"  # string: the line, for a person
REASON: Final = "reason"  # string: what is wrong, for a person
# Which of two subscriptions comes first; also where it stands.
PLACE: Final = "place"
PLACE_TYPE: Final = "struct<file: string, block: bigint, row: bigint>"

_LINE: Final = "value"
_SPACE: Final = r"[ \t\r]*"
_COMMA: Final = f"{_SPACE},{_SPACE}"
_SUB_ID: Final = rf'"{SUB_ID}"{_SPACE}:{_SPACE}(0|[1-9][0-9]{{0,18}})'
_DESCRIPTOR: Final = rf'"{DESCRIPTOR}"{_SPACE}:{_SPACE}(\{{.*\}})'
_SUB_ID_FIRST: Final = rf"^{_SPACE}\{{{_SPACE}{_SUB_ID}{_COMMA}{_DESCRIPTOR}{_SPACE}\}}{_SPACE}$"
_SUB_ID_LAST: Final = rf"^{_SPACE}\{{{_SPACE}{_DESCRIPTOR}{_COMMA}{_SUB_ID}{_SPACE}\}}{_SPACE}$"
_READ_TYPE: Final = f"struct<{SUB_ID}: bigint, {DESCRIPTOR}: string, {REASON}: string>"


@dataclass(frozen=True, slots=True)
class SubscriptionFrames:
    """``good``: subId, descriptor (text). ``bad``: where, subId (null if unknown), reason."""

    good: DataFrame
    bad: DataFrame
    bad_count: int
    read: DataFrame | None = None  # persisted for as long as the others are in use

    def release(self) -> None:
        """Let Spark forget what was read."""
        if self.read is not None:
            self.read.unpersist()


def open_subscriptions(spark: SparkSession, path: str) -> SubscriptionFrames:
    """Subscriptions of JSON lines (a file or a folder of them) or of a Delta table."""
    with spark_errors_as(SourceError, f"no subscriptions at {path}"):
        if is_table(spark, path):
            read = _of_table(spark.read.format("delta").load(path), path)
            return _each_number_once(read, read.select(F.lit(path).alias(WHERE)).limit(0))
        lines = spark.read.option("lineSep", "\n").text(path)
        placed = lines.select(_LINE, _place().alias(PLACE))
        return _each_number_once(_of_lines(placed), placed)


def _of_table(rows: DataFrame, path: str) -> DataFrame:
    """Rows of a table with subId and descriptor (text)."""
    missing = [name for name in (SUB_ID, DESCRIPTOR) if name not in rows.columns]
    if missing:
        raise SourceError(f"{path} is no table of subscriptions: it lacks {', '.join(missing)}")
    number, text = F.col(SUB_ID).cast("bigint"), F.col(DESCRIPTOR).cast("string")
    usable = F.coalesce((number >= 0) & text.isNotNull(), F.expr("false"))
    reason = F.lit("the row has no subId of 0 .. 2^63-1, or no descriptor")
    # A table has no order: of two rows with one number the first by its text counts.
    place = F.struct(text.alias("file"), F.lit(0).alias("block"), F.lit(0).alias("row"))
    return rows.select(
        number.alias(SUB_ID),
        text.alias(DESCRIPTOR),
        F.when(~usable, reason).alias(REASON),
        place.cast(PLACE_TYPE).alias(PLACE),
    )


def _of_lines(placed: DataFrame) -> DataFrame:
    """Columns subId, descriptor, reason (null when good) and place, for each line not blank."""
    written = placed.where(F.trim(_LINE) != "")
    forms = written.select(
        _LINE,
        PLACE,
        F.coalesce(_group(_SUB_ID_FIRST, 1), _group(_SUB_ID_LAST, 2)).alias(SUB_ID),
        F.coalesce(_group(_SUB_ID_FIRST, 2), _group(_SUB_ID_LAST, 1)).alias(DESCRIPTOR),
    ).withColumn(SUB_ID, F.expr(f"try_cast({SUB_ID} AS bigint)"))
    # The strict reader measures a descriptor without its spaces, so a long one is left to it.
    short = F.octet_length(DESCRIPTOR) <= MAX_DESCRIPTOR_BYTES
    sound = F.call_function("is_valid_utf8", F.col(_LINE))
    usual = F.coalesce(F.col(SUB_ID).isNotNull() & short & sound, F.expr("false"))
    read = F.udf(_strictly_read, _READ_TYPE)(F.when(sound, F.col(_LINE)))
    unusual = forms.where(~usual).select(read.alias("read"), PLACE).select("read.*", PLACE)
    nothing = F.lit(None).cast("string").alias(REASON)
    return forms.where(usual).select(SUB_ID, DESCRIPTOR, nothing, PLACE).unionByName(unusual)


def _group(pattern: str, number: int) -> Column:
    found = F.regexp_extract(_LINE, pattern, number)
    return F.when(found != "", found)


def _strictly_read(line: str | None) -> tuple[int | None, str | None, str | None]:
    """What the one strict reader makes of a line; None stands for bytes that are no text."""
    if line is None:
        return None, None, "the line is not UTF-8"
    try:
        subscription = parse_subscription(line)
    except SpapsError as error:
        return None, None, str(error)
    return subscription.sub_id, descriptor_json(subscription.neighborhood), None


def _place() -> Column:
    return F.struct(
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("row"),
    )


def _each_number_once(read: DataFrame, lines: DataFrame) -> SubscriptionFrames:
    """A number that is used twice counts where it is first."""
    read = read.persist(StorageLevel.MEMORY_AND_DISK)
    is_good = F.col(REASON).isNull()
    counts = read.agg(
        F.count_if(is_good).alias("good"),
        F.count_if(~is_good).alias("bad"),
        F.count_distinct(F.when(is_good, F.col(SUB_ID))).alias("numbers"),
    ).collect()[0]
    good = read.where(is_good)
    bad = read.where(~is_good).select(PLACE, SUB_ID, REASON)
    repeated = counts["good"] - counts["numbers"]
    if repeated:
        counted = good.groupBy(SUB_ID).agg(F.min(PLACE).alias("first"), F.count("*").alias("times"))
        twice = counted.where(F.col("times") > 1).select(SUB_ID, "first")
        with_first = good.join(twice, on=SUB_ID, how="left")
        is_first = F.coalesce(F.col(PLACE) == F.col("first"), F.expr("true"))
        came_before = F.concat(F.lit("subId "), SUB_ID, F.lit(" came before")).alias(REASON)
        bad = bad.unionByName(with_first.where(~is_first).select(PLACE, SUB_ID, came_before))
        good = with_first.where(is_first)
    return SubscriptionFrames(
        good.select(SUB_ID, DESCRIPTOR),
        _with_line_numbers(bad, lines),
        counts["bad"] + repeated,
        read,
    )


def _with_line_numbers(bad: DataFrame, lines: DataFrame) -> DataFrame:
    """Say where bad lines stand. Only blocks are counted up, never the lines of a file."""
    if PLACE not in lines.columns:
        where = F.concat(F.lit("subId "), F.coalesce(F.col(SUB_ID).cast("string"), F.lit("null")))
        return bad.select(where.alias(WHERE), SUB_ID, REASON)
    blocks = lines.groupBy(f"{PLACE}.file", f"{PLACE}.block").agg(
        F.count("*").alias("lines"), F.min(f"{PLACE}.row").alias("firstRow")
    )
    earlier = Window.partitionBy("file").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    before = blocks.select(
        "file", "block", "firstRow", F.coalesce(F.sum("lines").over(earlier), F.lit(0)).alias("n")
    )
    number = F.col("n") + F.col("row") - F.col("firstRow") + 1
    name = F.element_at(F.split("file", "/"), -1)
    return (
        bad.select(f"{PLACE}.*", SUB_ID, REASON)
        .join(F.broadcast(before), on=["file", "block"], how="inner")
        .select(F.concat(name, F.lit(" line "), number).alias(WHERE), SUB_ID, REASON)
    )
