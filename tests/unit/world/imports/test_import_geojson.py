"""GeoJSON in: RFC 7946, and what people write instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import shapely
from pyproj import Transformer

from schemas.errors import SourceError
from tests.scenes.source_files import feature, write_geojson
from world.imports.world_import import import_world
from world.snapshot import load_snapshot

POINT = shapely.Point(13.4, 52.5)
LINE = shapely.LineString([(13.4, 52.5), (13.41, 52.5)])


def imported(tmp_path: Path, *features: dict[str, Any], **options: Any) -> dict[int, str]:
    source = write_geojson(tmp_path / "source.geojson", features)
    report = import_world([source], tmp_path / "world", **options)
    return {problem.kind.value: problem.count for problem in report.problems} | {
        "entities": report.facts.entity_count
    }


def test_features_become_entities_in_the_utm_zone_of_the_data(tmp_path: Path) -> None:
    source = write_geojson(
        tmp_path / "source.geojson",
        [
            feature(LINE, peid="9", categories=["road/minor", "road/major"], name="Long Road"),
            feature(POINT, peid=7, categories=["shop/"], name=12),
            feature(POINT, peid=8, categories=["shop"], name=" "),
        ],
    )
    report = import_world([source], tmp_path / "world")
    table = load_snapshot(str(tmp_path / "world"))
    assert (report.facts.version, report.facts.srid, report.created) == (1, 32633, True)
    assert report.problems == ()
    assert table.peids.tolist() == [7, 8, 9]
    assert table.names.tolist() == ["12", None, "Long Road"]
    categories = [
        [table.category_names[code] for code in table.category_codes[start:stop]]
        for start, stop in zip(table.category_offsets, table.category_offsets[1:], strict=False)
    ]
    assert categories == [["shop"], ["shop"], ["road/major", "road/minor"]]
    x, y = Transformer.from_crs(4326, 32633, always_xy=True).transform(13.4, 52.5)
    assert table.geometries[0].coords[:] == [(x, y)]
    assert report.top_categories == {"shop": 2, "road": 1}


def test_a_single_feature_is_a_source_too(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(
        '{"type": "Feature", "geometry": {"type": "Point", "coordinates": [7, 43, 99]},'
        ' "properties": {"peid": 1, "categories": ["a"]}}'
    )
    import_world([path], tmp_path / "world")
    assert not load_snapshot(str(tmp_path / "world")).geometries[0].has_z


@pytest.mark.parametrize(
    ("peid", "kind"),
    [
        (None, "missing-peid"),
        (1.0, "malformed-peid"),
        (True, "malformed-peid"),
        ("seven", "malformed-peid"),
        ("\u0667", "malformed-peid"),  # a seven, but not of ASCII
        ("1" * 5000, "malformed-peid"),
        ([7], "malformed-peid"),
        (-1, "peid-out-of-range"),
        ("-1", "peid-out-of-range"),
        (2**63, "peid-out-of-range"),
        (str(2**63), "peid-out-of-range"),
    ],
)
def test_peids_that_cannot_be_used_are_listed(tmp_path: Path, peid: Any, kind: str) -> None:
    good = feature(POINT, peid=2**63 - 1, categories=["a"])
    bad = feature(POINT, peid=peid, categories=["a"])
    assert imported(tmp_path, good, bad) == {kind: 1, "entities": 1}


@pytest.mark.parametrize(
    ("categories", "expected"),
    [
        (None, {"missing-categories": 1, "entities": 1}),
        ([], {"missing-categories": 1, "entities": 1}),
        ("road", {"entities": 2}),
        ("", {"missing-categories": 1, "entities": 1}),
        (7, {"entities": 2}),
        (7.5, {"malformed-category": 1, "entities": 1}),
        ({"a": 1}, {"malformed-category": 1, "entities": 1}),
        ("road/#", {"malformed-category": 1, "entities": 1}),
        ([7], {"malformed-category": 1, "entities": 1}),
        ([""], {"malformed-category": 1, "entities": 1}),
        (["road//x"], {"malformed-category": 1, "entities": 1}),
        (["/road"], {"malformed-category": 1, "entities": 1}),
        (["road/+"], {"malformed-category": 1, "entities": 1}),
        (["road/#"], {"malformed-category": 1, "entities": 1}),
        (["road\x00"], {"malformed-category": 1, "entities": 1}),
        (["x/" * 32 + "x"], {"malformed-category": 1, "entities": 1}),
        (["road#", "road"], {"malformed-category": 1, "entities": 2}),
        (["road", "road", "road/"], {"entities": 2}),
        (["x/" * 31 + "x"], {"entities": 2}),
        (["Straße/größer als"], {"entities": 2}),
    ],
)
def test_categories_that_cannot_be_used_are_listed(
    tmp_path: Path, categories: Any, expected: dict[str, int]
) -> None:
    good = feature(POINT, peid=1, categories=["a"])
    assert imported(tmp_path, good, feature(POINT, peid=2, categories=categories)) == expected


BOW_TIE = shapely.Polygon([(13, 52), (13.1, 52.1), (13.1, 52), (13, 52.1)])


@pytest.mark.parametrize(
    ("geometry", "kind"),
    [
        (None, "missing-geometry"),
        (shapely.Point(), "empty-geometry"),
        ({"type": "MultiPolygon", "coordinates": []}, "empty-geometry"),
        (shapely.GeometryCollection([POINT]), "geometry-collection"),
        ({"type": "Circle", "coordinates": [1, 2]}, "unknown-geometry-type"),
        ({"coordinates": [1, 2]}, "unknown-geometry-type"),
        ("POINT (1 2)", "unknown-geometry-type"),
        ({"type": "Point"}, "broken-geometry"),
        ({"type": "Point", "coordinates": "x"}, "broken-geometry"),
        ({"type": "LineString", "coordinates": [[1, 2]]}, "broken-geometry"),
        ({"type": "Polygon", "coordinates": [[[1, 2], [3, 4]]]}, "broken-geometry"),
        ({"type": "LineString", "coordinates": [[1, 2], [1, 2]]}, "broken-geometry"),
        (BOW_TIE, "broken-geometry"),
        ({"type": "Point", "coordinates": [float("nan"), 1.0]}, "non-finite-coordinates"),
        ({"type": "Point", "coordinates": [float("inf"), 1.0]}, "non-finite-coordinates"),
        ({"type": "LineString", "coordinates": [[1, 2], [1e400, 2]]}, "non-finite-coordinates"),
        ({"type": "Point", "coordinates": [13, 95]}, "outside-projection"),
    ],
)
def test_geometry_that_cannot_be_used_is_listed(tmp_path: Path, geometry: Any, kind: str) -> None:
    good = feature(POINT, peid=1, categories=["a"])
    bad = feature(geometry, peid=2, categories=["a"])
    assert imported(tmp_path, good, bad) == {kind: 1, "entities": 1}


def test_a_problem_names_source_place_and_reason(tmp_path: Path) -> None:
    source = write_geojson(
        tmp_path / "source.geojson",
        [feature(POINT, peid=1, categories=["a"]), feature(BOW_TIE, peid=2, categories=["a"])],
    )
    (summary,) = import_world([source], tmp_path / "world").problems
    assert (summary.count, summary.kept) == (1, 0)
    assert summary.example.peid == 2
    assert summary.example.locator == "feature 2"
    assert str(summary.example).startswith(f"{source}, feature 2: geometry is not valid: self-int")


def test_options_fill_in_for_missing_properties(tmp_path: Path) -> None:
    features = [
        feature(POINT, number=5),
        feature(POINT, number="6", categories=[]),
        feature(POINT, number=7, categories=["own"]),
        feature(POINT, number=8, categories=["#"]),
    ]
    found = imported(tmp_path, *features, id_field="number", category="given/")
    assert found == {"malformed-category": 1, "entities": 3}
    table = load_snapshot(str(tmp_path / "world"))
    assert [table.category_names[code] for code in table.category_codes] == [
        "given",
        "given",
        "given/own",
    ]


def test_the_id_of_a_feature_may_stand_beside_its_properties(tmp_path: Path) -> None:
    written = {**feature(POINT, categories=["a"]), "id": 12}
    source = write_geojson(tmp_path / "source.geojson", [written])
    import_world([source], tmp_path / "world", id_field="id")
    assert load_snapshot(str(tmp_path / "world")).peids.tolist() == [12]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deep"),
        ("\ufffe", "not JSON"),
        ("[]", "not GeoJSON"),
        ('{"type": "Topology"}', "not GeoJSON"),
        ('{"type": "FeatureCollection"}', "must be a list"),
        ('{"type": "FeatureCollection", "features": [1]}', "must be a list"),
        ('{"type": "FeatureCollection", "features": []}', "no entity"),
        (
            '{"type": "FeatureCollection", "features": [], "crs": {"type": "EPSG"}}',
            "longitude and latitude",
        ),
        (
            '{"type": "Feature", "geometry": null, "properties": {"categories": ["a"]}}',
            "--id-field",
        ),
        ('{"type": "Feature", "geometry": null, "properties": {"peid": 1}}', "--category"),
        ('{"type": "Feature", "geometry": null, "properties": []}', "--id-field"),
    ],
)
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "bad.geojson"
    path.write_bytes(text.encode("utf-16" if text == "\ufffe" else "utf-8"))
    with pytest.raises(SourceError, match=reason) as caught:
        import_world([path], tmp_path / "world")
    assert "\n" not in str(caught.value)


def test_a_file_that_names_wgs84_in_the_old_way_is_read(tmp_path: Path) -> None:
    source = write_geojson(
        tmp_path / "old.geojson",
        [feature(POINT, peid=1, categories=["a"])],
        crs={"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}},
    )
    assert import_world([source], tmp_path / "world").facts.entity_count == 1


def test_half_a_character_in_a_name_is_a_problem_of_its_feature(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        feature(POINT, peid=1, categories=["a"], name="whole \U0001f333"),
        feature(POINT, peid=2, categories=["a"], name="tree \ud83c"),
        feature(POINT, peid=3, categories=["a"]),
        feature(POINT, peid="\ud800", categories=["a"], name="\ud800"),
    )
    assert found == {"malformed-name": 1, "malformed-peid": 1, "entities": 3}
    names = load_snapshot(str(tmp_path / "world")).names.tolist()
    assert names == ["whole \U0001f333", "tree \ufffd", None]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("coordinates", [nested(800), [10**400, 1], ["nine", 1]])
def test_coordinates_that_cannot_be_read_are_a_problem_of_their_feature(
    tmp_path: Path, coordinates: Any
) -> None:
    broken = {"type": "Polygon" if len(coordinates) == 1 else "Point", "coordinates": coordinates}
    found = imported(
        tmp_path,
        feature(POINT, peid=1, categories=["a"]),
        feature(broken, peid=2, categories=["a"]),
        feature(POINT, peid=3, categories=["a"]),
    )
    assert found == {"broken-geometry": 1, "entities": 2}


def test_a_number_of_thousands_of_digits_is_a_problem_of_its_feature(tmp_path: Path) -> None:
    path = write_geojson(
        tmp_path / "source.geojson",
        [feature(POINT, peid=1, categories=["a"]), feature(POINT, peid=222, categories=["a"])],
    )
    path.write_text(path.read_text().replace("222", "9" * 5000))
    report = import_world([path], tmp_path / "world")
    assert (report.facts.entity_count, report.problems[0].kind) == (1, "malformed-peid")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "its JSON is nested too deep to be read"),
        (b"", "not JSON: an empty file"),
        (b'{"type": "\xff"}', r"not UTF-8 text \(byte 10\)"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "source.json").write_bytes(content)
    with pytest.raises(SourceError, match=reason):
        import_world([tmp_path / "source.json"], tmp_path / "world")
    assert not (tmp_path / "world" / "versions").exists()


def test_remarks_are_in_words_of_the_file(tmp_path: Path) -> None:
    point = feature(POINT, peid=2, categories=["a"])
    point["geometry"] = {"type": "Point", "coordinates": ["a", "b"]}
    wrong = [point, feature(POINT, peid="9" * 100, categories=["a"])]
    good = feature(POINT, peid=1, categories=["a"])
    source = write_geojson(tmp_path / "source.geojson", [*wrong, good])
    report = import_world([source], tmp_path / "world")
    reasons = {each.kind.value: each.example.reason for each in report.problems}
    assert reasons == {
        "broken-geometry": "geometry cannot be read: a coordinate is not a number",
        "malformed-peid": f"peid '{'9' * 59}… is not an integer from 0 to {2**63 - 1}",
    }
