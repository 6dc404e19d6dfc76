"""The peer of all benchmarks: neighborhoods resolved by a stored procedure in PostGIS.

``with postgis_peer(table) as peer: rows = peer.resolve(neighborhood)``
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import shapely
from psycopg.types.json import Jsonb

from schemas.language.categories import CategoryTree
from schemas.language.conditions import (
    Condition,
    Leaf,
    Relate,
    Topological,
    WithinDistance,
    fold,
)
from schemas.language.neighborhood import Neighborhood, WrittenStage
from spatial_udfs.entity_table import EntityTable
from testing.postgis_server import postgis_server

PROCEDURE = Path(__file__).with_name("postgis_procedure.sql")

FUNCTIONS = {
    "E": "ST_Equals(r.geom, e.geom)",
    "I": "ST_Intersects(r.geom, e.geom)",
    "D": "ST_Disjoint(r.geom, e.geom)",
    "T": "ST_Touches(r.geom, e.geom)",
    "C": "ST_Contains(r.geom, e.geom)",
    "W": "ST_Within(r.geom, e.geom)",
    "CV": "ST_Covers(r.geom, e.geom)",
    "CB": "ST_CoveredBy(r.geom, e.geom)",
    "X": "ST_Crosses(r.geom, e.geom)",
    "O": "ST_Overlaps(r.geom, e.geom)",
    # The index serves functions that it knows, so the named relation that contains it is added.
    "B": "(ST_Intersects(r.geom, e.geom) AND (ST_Relate(r.geom, e.geom, '***T*****')"
    " OR ST_Relate(r.geom, e.geom, '****T****')))",
}


class PostgisPeer:
    """A loaded city and the procedure."""

    def __init__(self, connection: psycopg.Connection[Any], table: EntityTable) -> None:
        """Load the table; from then on the connection belongs to the peer."""
        self._connection = connection
        self._tree = CategoryTree(table.category_names)
        connection.execute(PROCEDURE.read_text())
        self._load(table)

    def call_of(self, neighborhood: Neighborhood, frontier: bool = False) -> tuple[Any, ...]:
        """Return the procedure's arguments, made ahead so that timing covers the database alone."""
        stages = neighborhood.written_out()
        calls = [self._stage(stage, stages, frontier) for stage in stages]
        return list(neighborhood.refs), Jsonb(calls, dumps=json.dumps)

    def rows_of(self, call: tuple[Any, ...]) -> list[tuple[int, int]]:
        """Return all rows (peid, stageNo), hidden stages included."""
        query = "SELECT peid, stage_no FROM resolve_neighborhood(%s, %s)"
        return self._connection.execute(query, call, binary=True).fetchall()

    def resolve(self, neighborhood: Neighborhood, frontier: bool = False) -> list[tuple[int, int]]:
        """Return the membership rows (peid, stageNo) of the visible stages."""
        rows = self.rows_of(self.call_of(neighborhood, frontier))
        return [(peid, number) for peid, number in rows if neighborhood.visible[number - 1]]

    def query(self, text: str, values: Any = None) -> list[tuple[Any, ...]]:
        """Return the rows of any other query."""
        return self._connection.execute(text, values).fetchall()

    def cpu_seconds(self) -> float:
        """Return processor time that this connection's server process has used so far."""
        facts = Path(f"/proc/{self._connection.info.backend_pid}/schedstat").read_text()
        return int(facts.split()[0]) / 1e9

    def versions(self) -> str:
        """Return which PostgreSQL, PostGIS and GEOS these are."""
        row = self._connection.execute("SELECT version(), postgis_full_version()").fetchone()
        assert row is not None
        return f"{row[0].split(' on ')[0]}; {row[1].split(' PROJ')[0]}"

    def _stage(
        self, stage: WrittenStage, stages: tuple[WrittenStage, ...], frontier: bool
    ) -> dict[str, Any]:
        call: dict[str, Any] = {
            "refStages": stage.ref_stages,
            "categories": self._tree.codes(stage.categories),
            "join": condition_sql(stage.condition),
        }
        before = stages[stage.number - 2] if stage.number > 2 else None
        if frontier and before is not None and _goes_on(before, stage):
            call["frontier"] = [before.number]
        return call

    def _load(self, table: EntityTable) -> None:
        connection = self._connection
        offsets, codes = table.category_offsets.tolist(), table.category_codes.tolist()
        geometries = shapely.to_wkb(table.geometries, hex=True)
        with (
            connection.cursor() as cursor,
            cursor.copy("COPY entity (peid, categories, geom) FROM STDIN") as copy,
        ):
            for place, (peid, wkb) in enumerate(zip(table.peids.tolist(), geometries, strict=True)):
                copy.write_row((peid, codes[offsets[place] : offsets[place + 1]], wkb))
        # Rows in the order of the spatial index: neighbors share pages.
        connection.execute("CREATE INDEX entity_geom ON entity USING gist (geom)")
        connection.execute("CLUSTER entity USING entity_geom")
        connection.execute("ALTER TABLE entity ADD PRIMARY KEY (peid)")
        connection.execute("VACUUM ANALYZE entity")


def _goes_on(before: WrittenStage, stage: WrittenStage) -> bool:
    """Return whether the stage repeats the one before it, with its members as references too."""
    return (
        before.condition == stage.condition
        and before.categories == stage.categories
        and set(stage.ref_stages) == {*before.ref_stages, before.number}
    )


def condition_sql(condition: Condition) -> str:
    """Return the condition as a join of r and e."""
    return fold(
        condition,
        _leaf_sql,
        lambda operand: f"(NOT {operand})",
        lambda left, right: f"({left} AND {right})",
        lambda left, right: f"({left} OR {right})",
    )


def _leaf_sql(leaf: Leaf) -> str:
    match leaf:
        case Topological(short):
            return FUNCTIONS[short]
        case WithinDistance(metres):
            return f"ST_DWithin(r.geom, e.geom, {metres!r})"
        case Relate(mask):
            return f"ST_Relate(r.geom, e.geom, '{mask}')"


@contextmanager
def postgis_peer(table: EntityTable, cores: set[int] | None = None) -> Iterator[PostgisPeer]:
    """Yield a peer with this table on a server of its own, gone after the block."""
    with postgis_server(cores) as connection:
        yield PostgisPeer(connection, table)
