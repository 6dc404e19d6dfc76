"""Keys of entities: from the source, one to one with peids, the same in every version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely

from schemas.entity import peid_of_key
from schemas.errors import SourceError
from tests.scenes.source_files import feature, write_geojson, write_geoparquet
from world.imports.world_import import import_world
from world.snapshot import load_snapshot
from world.sources.osm import peids
from world.versions.store import WorldStore

VILLAGE = Path(__file__).resolve().parents[3] / "extracts" / "village.osm"
BERLIN = shapely.Point(390_000, 5_820_000)


def shop(at: int = 0, **properties: Any) -> dict[str, Any]:
    identity = {"id": properties.pop("id")} if "id" in properties else {}
    point = shapely.Point(13.4 + at / 1000, 52.5)
    return {**feature(point, categories=["shop"], **properties), **identity}


def keys_of(world: Path) -> dict[str, int]:
    """Key -> peid of the newest version, as stored."""
    store = WorldStore(str(world))
    rows = store.entities(store.latest().version)
    keys = dict(zip(rows.column("key").to_pylist(), rows.column("peid").to_pylist(), strict=True))
    assert len(keys) == rows.num_rows
    return keys


def imported(tmp_path: Path, *features: dict[str, Any], **options: Any) -> dict[str, int]:
    import_world([write_geojson(tmp_path / "s.geojson", features)], tmp_path / "world", **options)
    return keys_of(tmp_path / "world")


@pytest.mark.parametrize(
    ("properties", "options", "expected"),
    [
        ({"id": "a1"}, {}, {"a1": peid_of_key("a1")}),
        ({"id": 17}, {}, {"17": 17}),
        ({"id": 17.0}, {}, {"17": 17}),
        ({"id": " x "}, {}, {"x": peid_of_key("x")}),
        ({"id": "other", "gml": "g.7"}, {"id_field": "gml"}, {"g.7": peid_of_key("g.7")}),
        ({"number": -5}, {"id_field": "number"}, {"-5": peid_of_key("-5")}),
        ({"number": "007"}, {"id_field": "number"}, {"007": peid_of_key("007")}),
        ({"peid": 5}, {}, {"5": 5}),
        ({"peid": 5}, {"id_field": "peid"}, {"5": 5}),
        ({"peid": 5, "id": "five"}, {}, {"five": 5}),
        ({"peid": 5, "gml": "g.5"}, {"id_field": "gml"}, {"g.5": 5}),
        ({"peid": 5, "id": "\ud800"}, {}, {"5": 5}),
    ],
)
def test_where_keys_of_geojson_come_from(
    tmp_path: Path, properties: dict[str, Any], options: Any, expected: dict[str, int]
) -> None:
    assert imported(tmp_path, shop(**properties), **options) == expected


def test_the_property_id_is_enough(tmp_path: Path) -> None:
    inside = feature(shapely.Point(13, 52), categories=["a"], id="x")
    assert imported(tmp_path, inside) == {"x": peid_of_key("x")}


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        ({"key": "a"}, {}, {"a": peid_of_key("a")}),
        ({"id": "a"}, {}, {"a": peid_of_key("a")}),
        ({"id": "a", "key": "b"}, {}, {"b": peid_of_key("b")}),
        ({"id": "a", "ident": "c"}, {"id_field": "ident"}, {"c": peid_of_key("c")}),
        ({"peid": 5, "key": "a"}, {}, {"a": 5}),
        ({"peid": 5}, {}, {"5": 5}),
    ],
)
def test_where_keys_of_geoparquet_come_from(
    tmp_path: Path, columns: dict[str, Any], options: Any, expected: dict[str, int]
) -> None:
    row = {"categories": ["a"], "geometry": BERLIN, **columns}
    import_world([write_geoparquet(tmp_path / "s.parquet", [row])], tmp_path / "world", **options)
    assert keys_of(tmp_path / "world") == expected


def test_rows_without_a_usable_key_are_listed(tmp_path: Path) -> None:
    odd = [None, "", "a\x00", ["a"], True, 1.5, float(2**60), "b\nc", "x" * 1025]
    source = write_geojson(
        tmp_path / "s.geojson", [shop(n, number=value) for n, value in enumerate([*odd, "good"])]
    )
    report = import_world([source], tmp_path / "world", id_field="number")
    assert report.facts.problem_counts == {"missing-key": 2, "malformed-key": 7}
    assert keys_of(tmp_path / "world").keys() == {"good"}


def test_two_keys_with_one_peid_are_an_error_that_names_both(tmp_path: Path) -> None:
    taken = shop(id="first", peid=peid_of_key("second"))
    sources = [
        write_geojson(tmp_path / "a.geojson", [shop(1, id="zero", peid=1), taken]),
        write_geojson(tmp_path / "b.geojson", [shop(2, id="second")]),
    ]
    for order in sources, sources[::-1]:
        with pytest.raises(SourceError, match=r"keys '(first|second)' .*b?\.geojson") as caught:
            import_world(order, tmp_path / "world")
        assert "'first'" in str(caught.value)
        assert "'second'" in str(caught.value)
        assert str(peid_of_key("second")) in str(caught.value)
    assert not (tmp_path / "world" / "entities").exists()


def test_a_key_that_is_there_twice_is_listed(tmp_path: Path) -> None:
    """With peids of their own both rows stay; without, they are the same entity."""
    with_peids = [shop(1, peid=1, id="x"), shop(2, peid=2, id="x"), shop(3, peid=3, id="y")]
    assert imported(tmp_path, *with_peids) == {"x": 1, "2": 2, "y": 3}
    (problem,) = WorldStore(str(tmp_path / "world")).problems(1).to_pylist()
    assert (problem["kind"], problem["kept"], problem["peid"]) == ("duplicate-key", True, 2)
    assert "'x' of" in problem["reason"]
    assert "feature 1" in problem["reason"]
    assert imported(tmp_path, shop(1, id="x"), shop(2, id="x")) == {"x": peid_of_key("x")}
    (problem,) = WorldStore(str(tmp_path / "world")).problems(2).to_pylist()
    assert (problem["kind"], problem["kept"]) == ("duplicate-conflicting", False)
    assert problem["reason"].startswith("has the key of")


def test_the_order_of_sources_and_other_entities_do_not_matter(tmp_path: Path) -> None:
    sources = [
        write_geojson(tmp_path / f"{name}.geojson", [shop(n, id=f"{name}{n}") for n in range(20)])
        for name in "ab"
    ]
    import_world([*sources, VILLAGE], tmp_path / "one")
    import_world([VILLAGE, *sources[::-1]], tmp_path / "two")
    import_world(sources[:1], tmp_path / "three")
    one, two, three = (keys_of(tmp_path / name) for name in ("one", "two", "three"))
    assert one == two
    assert three.items() <= one.items()


def test_keys_of_osm_elements(tmp_path: Path) -> None:
    """The id of the element, and for a road segment the hash in its peid."""
    import_world([VILLAGE], tmp_path / "world")
    keys = keys_of(tmp_path / "world")
    for key, peid in keys.items():
        element, number = key.split("#")[0].split("/")
        base = peids.POINT_BASE if element == "node" else peids.RELATION_AREA_BASE
        if element != "way":
            assert peid == base + int(number)
        elif "#" not in key:
            assert peid == peids.WAY_AREA_BASE + int(number)
        elif key.endswith("#line"):
            assert peid == peids.LINE_BASE + int(number)
        else:
            assert peid == peids.SEGMENT_BASE + int(key.split("#")[1])
    kinds = {(key.split("/")[0], "#" in key, key.endswith("#line")) for key in keys}
    assert kinds == {
        ("node", False, False), ("way", False, False), ("way", True, True),
        ("way", True, False), ("relation", False, False),
    }  # fmt: skip


def test_keys_are_kept_in_arrow_or_not_at_all(tmp_path: Path) -> None:
    imported(tmp_path, shop(id=1), shop(1, peid=2))
    assert load_snapshot(str(tmp_path / "world")).keys is None
    imported(tmp_path, shop(id="a"), shop(1, id=3))
    keys = load_snapshot(str(tmp_path / "world")).keys
    assert isinstance(keys, pa.StringArray)
    assert sorted(keys.to_pylist()) == ["3", "a"]
