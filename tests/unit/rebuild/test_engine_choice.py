"""Which engine a rebuild uses, by sizes, and what it says about that."""

from __future__ import annotations

import pytest

from rebuild.bulk_engine import (
    SPARK_FROM_BYTES,
    SPARK_FROM_ENTITIES,
    SPARK_FROM_NEIGHBORHOODS,
    Engine,
    EngineOnDemand,
    engine_of_sources,
    engine_of_world,
    no_bulk_engine,
)
from schemas.errors import SettingsError

AUTO = Engine.AUTO


@pytest.mark.parametrize(
    ("entities", "neighborhoods", "engine", "words"),
    [
        (SPARK_FROM_ENTITIES - 1, 0, Engine.EXACT, "in this process: 2,999,999 entities"),
        (SPARK_FROM_ENTITIES, 0, Engine.SPARK, "on Spark: 3,000,000 entities (Spark from 3,000,"),
        (5, SPARK_FROM_NEIGHBORHOODS, Engine.SPARK, "on Spark: 200,000 neighborhoods"),
    ],
)
def test_by_the_size_of_the_work(
    entities: int, neighborhoods: int, engine: Engine, words: str
) -> None:
    choice = engine_of_world(AUTO, entities, neighborhoods)
    assert choice.engine is engine
    assert words in choice.line()


def test_an_import_goes_by_the_version_before_else_by_bytes() -> None:
    assert engine_of_sources(AUTO, None, SPARK_FROM_BYTES - 1).engine is Engine.EXACT
    assert engine_of_sources(AUTO, None, SPARK_FROM_BYTES).engine is Engine.SPARK
    assert engine_of_sources(AUTO, 5, SPARK_FROM_BYTES).engine is Engine.EXACT
    assert engine_of_sources(AUTO, SPARK_FROM_ENTITIES, 1).engine is Engine.SPARK


@pytest.mark.parametrize("wanted", [Engine.EXACT, Engine.SPARK])
def test_who_asks_for_an_engine_gets_it(wanted: Engine) -> None:
    assert engine_of_world(wanted, 10**9, 10**9).engine is wanted
    choice = engine_of_sources(wanted, 1, 1)
    assert (choice.engine, choice.reason) == (wanted, f"the engine {wanted} was asked for")


def test_the_bulk_engine_is_made_at_its_first_use() -> None:
    made: list[str] = []

    class Made:
        def close(self) -> None:
            made.append("closed")

    on_demand = EngineOnDemand(lambda: made.append("made") or Made())  # type: ignore[func-returns-value,arg-type,return-value]
    on_demand.close()
    assert made == []
    assert on_demand.get() is on_demand.get()
    on_demand.close()
    assert made == ["made", "closed"]
    with pytest.raises(SettingsError, match="this rebuild has none"):
        EngineOnDemand(lambda: no_bulk_engine("w", "o", print)).get()
