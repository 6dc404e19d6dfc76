"""What the bulk job leaves in Delta, compared frame by frame as Spark reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from chispa.dataframe_comparer import DataFramesNotEqualError
from chispa.schema_comparer import SchemasNotEqualError
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.bulk_run import resolve_batch
from jobs.pipeline.memberships.run_facts import RunFacts
from jobs.pipeline.subscriptions.snapshot import open_subscriptions
from schemas.language.notation import read_neighborhood
from schemas.membership import MEMBERSHIPS_TABLE, RUNS_TABLE
from tests.scenes.bulk_scene import exact_rows, write_world
from tests.strategies.drawn_city import drawn_city

pytestmark = pytest.mark.spark

COLUMNS = "version long, subId long, peid long, stageNo int"
WANTED = [
    read_neighborhood("({1},{road/#},C) • 2(Prev,{road/#},T) • ({2,3},{transport/#},T)"),
    read_neighborhood("({1},{#},NOT DW1.5)"),
    read_neighborhood("({1},{#},C AND B)"),
    read_neighborhood("({1},{#},C AND T)"),
]


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunFacts]:
    """Subscriptions out of a Delta table, some of its rows no subscriptions at all."""
    folder = tmp_path_factory.mktemp("frames")
    world = write_world(folder / "world", drawn_city())
    texts = [each.to_json() for each in WANTED]
    rows = [
        *enumerate(texts, start=1),
        (5, '{"refs": [1]}'),
        (6, None),
        (-7, texts[0]),
        (None, texts[0]),
        (8, read_neighborhood("({99999},{#},C)").to_json()),
    ]
    table = str(folder / "subscriptions")
    spark.createDataFrame(rows, "subId long, descriptor string").write.format("delta").save(table)
    frames = open_subscriptions(spark, table)
    out = folder / "out"
    return out, resolve_batch(spark, world, None, frames, table, str(out), lambda _: None)


def expected(spark: Any) -> Any:
    rows = [(1, *row) for row in exact_rows(drawn_city(), WANTED)]
    return spark.createDataFrame(rows, COLUMNS)


def memberships(spark: Any, out: Path) -> Any:
    table = spark.read.format("delta").load(str(out / MEMBERSHIPS_TABLE))
    return table.select("version", "subId", "peid", "stageNo")


def test_memberships_equal_those_of_the_exact_resolver(
    spark: Any, lake: tuple[Path, RunFacts]
) -> None:
    found = memberships(spark, lake[0])
    assert_df_equality(found, expected(spark), ignore_row_order=True, ignore_nullable=True)


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda rows: rows.where("NOT (subId = 1 AND stageNo = 4)"), DataFramesNotEqualError),
        (lambda rows: rows.unionAll(rows.limit(1)), DataFramesNotEqualError),
        (lambda rows: rows.withColumn("stageNo", F.lit(1)), DataFramesNotEqualError),
        (lambda rows: rows.withColumn("peid", F.col("peid").cast("int")), SchemasNotEqualError),
    ],
)
def test_the_comparison_can_fail(
    damage: Any, error: type[Exception], spark: Any, lake: tuple[Path, RunFacts]
) -> None:
    damaged = damage(memberships(spark, lake[0]))
    with pytest.raises(error):
        assert_df_equality(damaged, expected(spark), ignore_row_order=True, ignore_nullable=True)


def test_rows_that_are_no_subscriptions_are_listed(spark: Any, lake: tuple[Path, RunFacts]) -> None:
    out, facts = lake
    assert facts.problems.counts == {
        "unreadable": 3,
        "wrong descriptor": 1,
        "no reference": 1,
        "always empty": 1,
    }
    assert (facts.subscriptions, facts.resolved) == (9, 4)
    [run] = spark.read.format("delta").load(str(out / RUNS_TABLE)).collect()
    assert (run["version"], run["subscriptions"], run["rows"]) == (1, 9, facts.rows)
    assert run["unresolvedCount"] == 5
    reasons = {row["subId"]: row["reason"] for row in run["unresolved"]}
    assert "99999" in reasons[8]
    assert "stages" in reasons[5]
    assert any("always empty" in row["reason"] for row in run["remarks"])
    assert set(run["seconds"]) >= {"related", "resolve", "write"}
