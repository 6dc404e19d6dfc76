"""Options of sources: categories, prefixes, rules and names, by command and by import file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely

from schemas.entity import peid_of_key
from schemas.errors import SettingsError, SourceError
from tests.scenes.source_files import feature, write_geojson, write_geoparquet
from world.imports.import_request import request_of
from world.imports.world_import import import_world
from world.versions.store import WorldStore

RULES = """
names = ["bez", "nr"]
[[rule]]
match = { art = ["Kita", "Schule"], plaetze = "*" }
category = "school/{art}"
[[rule]]
match = { art = "Kita" }
geometry = "area"
category = "building/kita"
[[rule]]
match = { offen = "yes" }
category = "open"
"""
PLACE = shapely.Point(13.4, 52.5)
METRIC = shapely.Point(390_000, 5_820_000)


def rows_of(world: Path) -> dict[str, tuple[list[str], str | None]]:
    """Key -> categories and name."""
    store = WorldStore(str(world))
    rows = store.entities(store.latest().version).to_pylist()
    return {row["key"]: (row["categories"], row["name"]) for row in rows}


def both_formats(tmp_path: Path, rows: list[dict[str, Any]], **options: Any) -> Any:
    """What comes out of the same attributes in GeoJSON and in GeoParquet, which must be equal."""
    features = [feature(PLACE, **row) for row in rows]
    import_world([write_geojson(tmp_path / "s.geojson", features)], tmp_path / "json", **options)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    whole = [{**dict.fromkeys(columns), **row, "geometry": METRIC} for row in rows]
    types = {"categories": pa.array([row.get("categories") for row in rows]).type}
    source = write_geoparquet(tmp_path / "s.parquet", whole, types=types)
    import_world([source], tmp_path / "parquet", **options)
    found = rows_of(tmp_path / "json")
    assert rows_of(tmp_path / "parquet") == found
    return found


@pytest.mark.parametrize(
    ("attributes", "options", "categories"),
    [
        ({"categories": ["b", "a/c"]}, {}, ["a/c", "b"]),
        ({"categories": "a/c/"}, {}, ["a/c"]),
        ({"category": "a"}, {}, ["a"]),
        ({"category": "a", "categories": ["b"]}, {}, ["b"]),
        ({"kind": 3}, {"category_field": "kind", "category": "road"}, ["road/3"]),
        ({"kind": "x", "categories": ["b"]}, {"category_field": "kind"}, ["x"]),
        ({"categories": ["a", "b"]}, {"category": "p/q/"}, ["p/q/a", "p/q/b"]),
        ({"categories": None, "x": 1}, {"category": "p"}, ["p"]),
        ({"x": 1}, {"category": "p"}, ["p"]),
    ],
)
def test_categories_of_a_row(
    tmp_path: Path, attributes: dict[str, Any], options: dict[str, str], categories: list[str]
) -> None:
    found = both_formats(tmp_path, [{"id": "a", **attributes}], **options)
    assert found == {"a": (categories, None)}


def test_a_category_that_is_too_deep_below_its_prefix_is_listed(tmp_path: Path) -> None:
    deep = feature(PLACE, id="a", categories=["/".join("x" * 31), "y"])
    report = import_world(
        [write_geojson(tmp_path / "s.geojson", [deep])], tmp_path / "world", category="p/q"
    )
    assert report.facts.problem_counts == {"malformed-category": 1}
    assert rows_of(tmp_path / "world") == {"a": (["p/q/y"], None)}


def test_rules_map_attributes_to_categories(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    rows = [
        {"id": "a", "art": "Kita", "plaetze": 20.0, "offen": True, "bez": "Sonne"},
        {"id": "b", "art": "Schule", "plaetze": None, "offen": False, "bez": None},
        {"id": "c", "art": "Schule", "plaetze": 0.5, "offen": False, "bez": " "},
    ]
    found = both_formats(tmp_path, rows, rules=rules, category="edu")
    assert found == {
        "a": (["edu/open", "edu/school/kita"], "Sonne"),
        "b": (["edu"], None),
        "c": (["edu/school/schule"], None),
    }
    area = feature(PLACE.buffer(0.01), id="z", art="Kita", categories=["own"])
    import_world([write_geojson(tmp_path / "z.geojson", [area])], tmp_path / "z", rules=rules)
    assert rows_of(tmp_path / "z") == {"z": (["building/kita", "own"], None)}


@pytest.mark.parametrize(
    ("geometry", "kind"),
    [
        (None, "missing-geometry"),
        (shapely.GeometryCollection([PLACE]), "geometry-collection"),
        (PLACE, "missing-categories"),
    ],
)
def test_with_rules_a_row_is_left_out_for_what_is_wrong_with_it(
    tmp_path: Path, geometry: Any, kind: str
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nmatch = { art = "*" }\ncategory = "x/{art}"\n')
    art = None if kind == "missing-categories" else "b"
    rows = [feature(PLACE, id="a", art="a"), feature(geometry, id="b", art=art)]
    report = import_world(
        [write_geojson(tmp_path / "s.geojson", rows)], tmp_path / "w", rules=rules
    )
    assert report.facts.problem_counts == {kind: 1}


def test_names_and_keys_by_option(tmp_path: Path) -> None:
    rows = [{"nr": 7, "bez": "Hall", "category": "a"}, {"nr": 8, "bez": 12, "category": "a"}]
    features = [feature(PLACE, **row) for row in rows]
    source = write_geojson(tmp_path / "s.geojson", features)
    options = {"id_field": "nr", "key_prefix": "hall/", "name_field": "bez"}
    import_world([source], tmp_path / "world", **options)
    assert rows_of(tmp_path / "world") == {"hall/7": (["a"], "Hall"), "hall/8": (["a"], "12")}
    store = WorldStore(str(tmp_path / "world"))
    peids = store.entities(1).column("peid").to_pylist()
    assert sorted(peids) == sorted(map(peid_of_key, ("hall/7", "hall/8")))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"id_field": "nope"}, r"no feature has the property 'nope' that --id-field names \(its"),
        ({"name_field": "nope"}, "--name-field names"),
        ({"category_field": "nope"}, r"--category-field names .its properties: category, id"),
    ],
)
def test_a_field_that_is_not_there_says_which_are(
    tmp_path: Path, options: dict[str, str], reason: str
) -> None:
    source = write_geojson(tmp_path / "s.geojson", [feature(PLACE, id="a", category="b")])
    with pytest.raises(SourceError, match=reason):
        import_world([source], tmp_path / "world", **options)
    table = write_geoparquet(
        tmp_path / "s.parquet", [{"id": "a", "category": "b", "geometry": METRIC}]
    )
    with pytest.raises(SourceError, match="no column 'nope' that --"):
        import_world([table], tmp_path / "world", **options)


def write_import_file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "city.toml"
    file.write_text(text)
    return file


def test_several_sources_with_options_of_their_own(tmp_path: Path) -> None:
    """The same ids in two layers are told apart by a prefix."""
    write_geojson(tmp_path / "stops.geojson", [feature(PLACE, nr=1, art="bus")])
    (tmp_path / "layers").mkdir()
    write_geoparquet(tmp_path / "layers" / "trees.parquet", [{"id": 1, "geometry": METRIC}])
    (tmp_path / "rules.toml").write_text('[[rule]]\nmatch = {art = "*"}\ncategory = "stop/{art}"')
    file = write_import_file(
        tmp_path,
        """
        srid = 25833
        [[source]]
        path = "stops.geojson"
        id_field = "nr"
        key_prefix = "stop/"
        rules = "rules.toml"
        category = "transport"
        [[source]]
        path = "layers/trees.parquet"
        category = "nature/tree"
        """,
    )
    report = import_world([file], tmp_path / "world")
    assert rows_of(tmp_path / "world") == {
        "stop/1": (["transport/stop/bus"], None),
        "1": (["nature/tree"], None),
    }
    assert report.facts.srid == 25833
    assert [source.kind for source in report.facts.sources] == [
        "import-file", "geojson", "geoparquet",
    ]  # fmt: skip
    assert not import_world([file], tmp_path / "world").created
    again = report.facts.given_sources()
    assert again == [str(file)]
    assert not import_world(again, tmp_path / "world").created
    (tmp_path / "rules.toml").write_text('[[rule]]\nmatch = {art = "*"}\ncategory = "x/{art}"')
    assert import_world([file], tmp_path / "world").created


SOURCE = '[[source]]\npath = "a.geojson"\n'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", r"city\.toml: there is no \[\[source\]\]"),
        ("source = 1", r"no \[\[source\]\]"),
        ("x = [", r"city\.toml: .*at end of document"),
        (f"crs = 5\n{SOURCE}", r"city\.toml: unknown key 'crs'; known: snap, source, srid"),
        (f"{SOURCE}idfield = 'x'", r"source 1: unknown key 'idfield'; known: category, "),
        (f"{SOURCE}[[source]]\nid_field = 'x'", "source 2: path must be"),
        (f"{SOURCE}id_field = 5", "source 1: id_field must be a text"),
        (f"{SOURCE}category = 'a/#'", "source 1: category: .*wildcard"),
        ("[[source]]\npath = 'x.osm.pbf'\ncategory = 'a'", "source 1: category is not for OSM"),
        (f"{SOURCE}crs = 'nowhere'", "source 1: crs: 'nowhere' is no CRS"),
        (f"{SOURCE}rules = 'none.toml'", r"rules .*none\.toml: No such file"),
        (f"{SOURCE}key_prefix = ''", "source 1: key_prefix is empty"),
        (f"srid = 4326\n{SOURCE}", "does not measure in metres"),
        (f"srid = 'x'\n{SOURCE}", "srid must be a number"),
        (f"snap = true\n{SOURCE}", "snap must be a number"),
        (f"snap = -1\n{SOURCE}", "snap: -1 must be metres"),
    ],
)
def test_a_wrong_import_file_says_where_and_what(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason) as caught:
        request_of([write_import_file(tmp_path, text)])
    assert "\n" not in str(caught.value)


def test_an_import_file_stands_alone(tmp_path: Path) -> None:
    file = write_import_file(tmp_path, SOURCE)
    with pytest.raises(SettingsError, match="an import file stands alone"):
        request_of([file, "a.geojson"])
    with pytest.raises(SettingsError, match="--id-field: with an import file, write id_field into"):
        request_of([file], id_field="x")
    with pytest.raises(SourceError, match="no such file"):
        request_of([tmp_path / "other.toml"])
    with pytest.raises(SourceError, match=r"a\.geojson: no such file"):
        import_world([file], tmp_path / "world")
    write_import_file(tmp_path, '[[source]]\npath = "city.toml"')
    with pytest.raises(SettingsError, match="cannot be one of several sources"):
        import_world([file], tmp_path / "world")
