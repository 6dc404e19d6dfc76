"""The Spark import makes the very version that the import without Spark makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely
from pyspark.sql import SparkSession

from jobs.pipeline.world.world_frames import count_and_checksum
from jobs.pipeline.world.world_import import import_parquet
from schemas.entity import peid_of_key
from schemas.errors import SourceError
from tests.scenes.compared_imports import assert_same
from tests.scenes.source_files import Row, write_geoparquet
from world.imports.import_request import request_of
from world.imports.world_import import ImportReport, import_world
from world.long_work import silent
from world.snapshot import load_snapshot
from world.versions import version_tables
from world.versions.store import WorldStore
from world.versions.version_tables import content_checksum

pytestmark = pytest.mark.spark

BOW_TIE = shapely.Polygon([(0, 0), (10, 10), (10, 0), (0, 10)])


def both(
    spark: SparkSession, tmp_path: Path, *sources: Path, **options: Any
) -> tuple[ImportReport, ImportReport]:
    """The reports of an import without Spark and of one with it."""
    return (
        import_world(sources, tmp_path / "plain", **options),
        with_spark(spark, tmp_path / "spark", *sources, **options),
    )


def with_spark(
    spark: SparkSession, world: Path, *sources: Path, strict: bool = False, **options: Any
) -> ImportReport:
    request = request_of(sources, **options)
    return import_parquet(spark, request, str(world), strict=strict, force=False, progress=silent)


def messy_rows() -> list[Row]:
    """All kinds of rows, good ones and those with every problem a row can have."""
    chance = np.random.default_rng(5)
    rows: list[Row] = [
        {
            "peid": int(peid),
            "categories": ["road/Straße", "a", "a"] if peid % 3 else ["b/c"],
            "name": None if peid % 2 else f"Größe {peid}\U0001f600",
            "geometry": shapely.Point(x, y).buffer(5) if peid % 2 else shapely.Point(x, y),
        }
        for peid, (x, y) in enumerate(chance.uniform(0, 9_000, (400, 2)))
    ]
    rows += rows[7:9]
    rows += [{**rows[1], "name": "other"}, {**rows[2], "geometry": shapely.Point(1, 1)}]
    rows += [{**rows[3], "categories": ["z"], "name": "also other"}]
    wrong: list[dict[str, Any]] = [
        {"geometry": None},
        {"geometry": b"\x00"},
        {"geometry": BOW_TIE},
        {"geometry": shapely.Point()},
        {"geometry": shapely.GeometryCollection()},
        {"geometry": shapely.LineString([(0, 0), (np.nan, 1)])},
        {"categories": None},
        {"categories": []},
        {"categories": ["#"]},
        {"categories": ["x//y", "x"]},
        {"peid": None},
        {"peid": -7},
    ]
    good = {"peid": 1, "categories": ["a"], "name": None, "geometry": shapely.Point(0, 0)}
    return rows + [{**good, "peid": 1000 + n, **change} for n, change in enumerate(wrong)]


def test_same_version_in_the_crs_of_the_source(spark: SparkSession, tmp_path: Path) -> None:
    """Two sources; the second is a folder whose files must be numbered through."""
    rows = messy_rows()
    first = write_geoparquet(tmp_path / "first.parquet", rows[:300], row_group_size=50)
    folder = tmp_path / "more of it"
    write_geoparquet(folder / "part 1.parquet", rows[300:350], row_group_size=20)
    write_geoparquet(folder / "part 2%.parquet", rows[350:] + rows[:5])
    reports = both(spark, tmp_path, first, folder)
    assert_same(tmp_path, *reports)
    assert reports[0].facts.srid == 25833
    assert len(reports[0].problems) > 8
    table = load_snapshot(str(tmp_path / "spark"))
    assert len(table) == reports[0].facts.entity_count
    files = list((tmp_path / "spark" / "entities" / "version=1").glob("*.parquet"))
    assert len(files) == 1
    peids = pa.parquet.read_table(files[0]).column("peid").to_pylist()
    assert peids == sorted(peids)


def test_same_version_after_projection(spark: SparkSession, tmp_path: Path) -> None:
    """Degrees to the UTM zone of most rows, to the last bit of each coordinate."""
    chance = np.random.default_rng(6)
    places = chance.uniform((11.5, 52.0), (12.2, 52.5), (300, 2))
    rows = [
        {"ident": str(n), "geom": shapely.LineString([place, place + 0.01]), "name": n}
        for n, place in enumerate(places)
    ]
    source = write_geoparquet(
        tmp_path / "degrees.parquet",
        [*rows, {"ident": "x", "geom": rows[0]["geom"], "name": 1}],
        crs="absent",
        types={"ident": pa.string(), "geom": pa.large_binary(), "name": pa.int32()},
        geometry_column="geom",
    )
    reports = both(spark, tmp_path, source, id_field="ident", category="road")
    assert_same(tmp_path, *reports)
    # The two ways know each other's versions.
    again = import_world([source], tmp_path / "spark", id_field="ident", category="road")
    assert (again.created, again.facts) == (False, reports[1].facts)
    forced = import_world(
        [source], tmp_path / "spark", id_field="ident", category="road", force=True
    )
    assert (forced.facts.version, forced.facts.checksum) == (2, again.facts.checksum)
    zones = np.bincount((places[:, 0] > 12).astype(int))
    assert reports[1].facts.srid == (32632 if zones[0] >= zones[1] else 32633)


def test_same_keys(spark: SparkSession, tmp_path: Path) -> None:
    """Peids out of keys; keys beside peids, some of them twice; keys that are missing or wrong."""
    places = [shapely.Point(390_000 + n, 5_820_000) for n in range(6)]
    keys = ["a", "Straße 7", "a", None, "b\nc", "0017"]
    rows = [
        {"key": key, "categories": ["x"], "geometry": place}
        for key, place in zip(keys, places, strict=True)
    ]
    first = write_geoparquet(tmp_path / "first.parquet", rows)
    both_given = [
        {**row, "peid": number, "key": key}
        for number, (row, key) in enumerate(zip(rows, ["a", "z", "z", None, "y", "2"], strict=True))
    ]
    second = write_geoparquet(tmp_path / "second.parquet", both_given)
    plain, with_it = both(spark, tmp_path, first, second)
    assert_same(tmp_path, plain, with_it)
    assert plain.facts.problem_counts == {
        "duplicate-conflicting": 1, "missing-key": 1, "malformed-key": 1, "duplicate-key": 2,
    }  # fmt: skip
    stored = WorldStore(str(tmp_path / "spark")).entities(1)
    assert set(stored.column("key").to_pylist()) == {
        "a", "Straße 7", "0017", "0", "z", "2", "3", "y",
    }  # fmt: skip


def test_same_options(spark: SparkSession, tmp_path: Path) -> None:
    """Rules, prefixes and names; plain Parquet with WKT; two sources by an import file."""
    rows = [
        {"nr": n, "art": art, "offen": n % 2 == 0, "categories": "own", "geometry": place}
        for n, (art, place) in enumerate(
            zip(["Kita", "Schule", None], map(shapely.Point, range(3), range(3)), strict=True)
        )
    ]
    types = {"categories": pa.string()}
    write_geoparquet(tmp_path / "first.parquet", rows, types=types)
    written = {"id": ["a", "b", "c"], "lage": ["POINT (1 2)", None, "POINT ("], "bez": [1, 2, 3]}
    pa.parquet.write_table(pa.table(written), tmp_path / "second.parquet")
    (tmp_path / "rules.toml").write_text(
        '[[rule]]\nmatch = {art = "*"}\ncategory = "school/{art}"\n'
        '[[rule]]\nmatch = {offen = "yes", nr = "2"}\ncategory = "open"\n'
    )
    file = tmp_path / "city.toml"
    file.write_text("""
        [[source]]
        path = "first.parquet"
        id_field = "nr"
        key_prefix = "edu/"
        category = "p"
        rules = "rules.toml"
        [[source]]
        path = "second.parquet"
        geometry_field = "lage"
        crs = "EPSG:25833"
        category = "q"
        name_field = "bez"
    """)
    plain, with_it = both(spark, tmp_path, file)
    assert_same(tmp_path, plain, with_it)
    stored = WorldStore(str(tmp_path / "spark")).entities(1).to_pylist()
    assert {row["key"]: (row["categories"], row["name"]) for row in stored} == {
        "edu/0": (["p/own", "p/school/kita"], None),
        "edu/1": (["p/own", "p/school/schule"], None),
        "edu/2": (["p/open", "p/own"], None),
        "a": (["q"], "1"),
    }
    assert plain.facts.problem_counts == {"missing-geometry": 1, "broken-geometry": 1}


def test_a_collision_names_both_keys(spark: SparkSession, tmp_path: Path) -> None:
    place = {"categories": ["x"], "geometry": shapely.Point(390_000, 5_820_000)}
    first = write_geoparquet(tmp_path / "a.parquet", [{**place, "peid": peid_of_key("second")}])
    second = write_geoparquet(tmp_path / "b.parquet", [{**place, "key": "second"}])
    with pytest.raises(SourceError, match=r"keys '\d+' .* and 'second' ") as caught:
        with_spark(spark, tmp_path / "world", first, second)
    assert "\n" not in str(caught.value)


def test_strict_fails_and_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    source = write_geoparquet(
        tmp_path / "s.parquet",
        [{"peid": 1, "categories": ["a"], "geometry": shapely.Point(1, 2)}] * 2,
    )
    with pytest.raises(SourceError, match=r"strict.*1 duplicate-identical.*row 2"):
        with_spark(spark, tmp_path / "world", source, strict=True)
    assert WorldStore(str(tmp_path / "world")).versions() == []


def test_damage_inside_a_file_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"peid": n, "categories": ["a"], "geometry": shapely.Point(n, 2)} for n in range(5000)]
    source = write_geoparquet(tmp_path / "s.parquet", rows)
    damaged = bytearray(source.read_bytes())
    damaged[4:44] = b"\xff" * 40
    source.write_bytes(damaged)
    with pytest.raises(SourceError, match=r"s\.parquet") as caught:
        with_spark(spark, tmp_path / "world", source)
    assert "\n" not in str(caught.value)
    assert WorldStore(str(tmp_path / "world")).versions() == []


def test_the_checksum_is_the_same_as_columns(spark: SparkSession) -> None:
    """Where the two could differ: length of text in bytes or characters, signs, nothing at all."""
    rows = [
        (1, ["a", "b"], None, b"", None),
        (2, ["äöü/\U0001f600"], "", b"\x00\xff", "2"),
        (2**63 - 1, ["a|b", "1:x"], "a|b\n\u0000", bytes(range(256)), "\U0001f600|"),
        (0, [], "x", b"\x01", "00"),
    ]
    types = "peid long, categories array<string>, name string, geometry binary, key string"
    names = version_tables.UNVERSIONED_ENTITIES.names
    for count in range(len(rows) + 1):
        chosen = [dict(zip(names, row, strict=True)) for row in rows[:count]]
        table = pa.Table.from_pylist(chosen, version_tables.UNVERSIONED_ENTITIES)
        frame = spark.createDataFrame(rows[:count], types)
        assert count_and_checksum(frame) == (count, content_checksum(table))
