"""The category rules: a file that people change."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.errors import SettingsError
from world.imports.world_import import import_world
from world.snapshot import load_snapshot
from world.sources.osm.rules import GeometryKind, load_rules, sanitized
from world.sources.raw_values import category_fault

VILLAGE = Path(__file__).resolve().parents[3] / "extracts" / "village.osm"
POINT, LINE, AREA, ROAD = (
    GeometryKind.POINT,
    GeometryKind.LINE,
    GeometryKind.AREA,
    GeometryKind.ROAD,
)


@pytest.mark.parametrize(
    ("kind", "tags", "categories"),
    [
        (ROAD, {"highway": "primary"}, ("road/major/primary",)),
        (ROAD, {"highway": "motorway_link"}, ("road/major/motorway_link",)),
        (ROAD, {"highway": "residential"}, ("road/minor/residential",)),
        (ROAD, {"highway": "residential", "area": "yes"}, ()),
        (ROAD, {"highway": "footway"}, ("road/path/footway",)),
        (ROAD, {"highway": "proposed"}, ()),
        (ROAD, {"railway": "tram"}, ()),
        (LINE, {"railway": "tram"}, ("rail/tram",)),
        (POINT, {"highway": "bus_stop"}, ("transport/stop/bus",)),
        (
            AREA,
            {"public_transport": "platform", "tram": "yes", "bus": "yes"},
            ("transport/platform", "transport/stop/bus", "transport/stop/tram"),
        ),
        (AREA, {"amenity": "parking"}, ("transport/parking",)),
        (
            AREA,
            {"amenity": "parking", "parking": "underground"},
            ("transport/parking", "transport/parking/underground"),
        ),
        (POINT, {"shop": "bakery"}, ("shop/bakery",)),
        (POINT, {"shop": "bakery; cafe ;bakery"}, ("shop/bakery", "shop/cafe")),
        (POINT, {"shop": "no"}, ()),
        (POINT, {"shop": "no;books"}, ("shop/books",)),
        (POINT, {"shop": " "}, ()),
        (POINT, {"shop": "+"}, ()),
        (POINT, {"shop": "x" * 2000}, ("shop/" + "x" * 255,)),
        (AREA, {"building": "yes", "shop": "mall"}, ("building/yes", "shop/mall")),
        (AREA, {"boundary": "administrative", "admin_level": "8"}, ("zone/admin/8",)),
        (AREA, {"boundary": "administrative", "admin_level": "10"}, ("zone/admin/10",)),
        (AREA, {"boundary": "administrative"}, ()),
        (POINT, {"boundary": "administrative", "admin_level": "8"}, ()),
    ],
)
def test_the_rules_that_come_along(
    kind: GeometryKind, tags: dict[str, str], categories: tuple[str, ...]
) -> None:
    assert load_rules().categories(kind, tags) == categories


@pytest.mark.parametrize(
    ("value", "level"),
    [
        ("Bakery", "bakery"),
        (" ice  cream ", "ice_cream"),
        ("a/b", "a_b"),
        ("#1+", "1"),
        ("a\tb\x00c\u2028d\u200be", "a_b_c_d_e"),
        ("größe", "größe"),
        ("///", ""),
    ],
)
def test_a_tag_value_becomes_one_safe_level(value: str, level: str) -> None:
    assert sanitized(value) == level
    assert not level or category_fault(level) is None


def test_a_user_can_change_the_rules(tmp_path: Path) -> None:
    rules = tmp_path / "mine.toml"
    rules.write_text(
        """
        names = ["ref", "name"]
        [[rule]]
        match = { highway = ["prim*", "second?ry"] }
        geometry = "line"
        category = "street"
        [[rule]]
        match = { shop = "*" }
        unless = { name = "*" }
        geometry = ["point", "area"]
        category = "unnamed/{shop}"
        [[rule]]
        match = { "junction" = "*", highway = "*" }
        geometry = "area"
        category = "{junction}/{highway}/{junction}"
        """
    )
    import_world([VILLAGE], tmp_path / "world", rules=rules)
    table = load_snapshot(str(tmp_path / "world"))
    found = dict(zip(table.peids.tolist(), table.names, strict=True))
    # Whole ways, because the rule says line and not road; one shop without a name.
    assert found == {
        1_000_000_000_000_143: None,
        2_000_000_000_000_001: "High Street",
        2_000_000_000_000_003: None,
        3_000_000_000_000_006: None,
    }
    assert set(table.category_names) == {
        "street",
        "unnamed/bikes_parts_1",
        "roundabout/tertiary/roundabout",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[rule", "Expected"),
        ("", r"no \[\[rule\]\]"),
        ("rule = 5", r"no \[\[rule\]\]"),
        ("rule = [5]", "rule 1 must be a table"),
        ("[[rules]]", "unknown key 'rules'"),
        ('names = 5\n[[rule]]\nmatch = {a = "b"}\ngeometry = "point"\ncategory = "x"', "names"),
        ('[[rule]]\nmatch = {a = "b"}\ngeometry = "point"\ncategory = "x"\nkind = 1', "'kind'"),
        ('[[rule]]\ngeometry = "point"\ncategory = "x"', "rule 1: match"),
        ('[[rule]]\nmatch = {}\ngeometry = "point"\ncategory = "x"', "at least one key"),
        ('[[rule]]\nmatch = {a = 5}\ngeometry = "point"\ncategory = "x"', r"match\.a"),
        ('[[rule]]\nmatch = {a = "b"}\ngeometry = []\ncategory = "x"', "point, line, area, road"),
        ('[[rule]]\nmatch = {a = "b"}\ngeometry = "dot"\ncategory = "x"', "point, line, area"),
        ('[[rule]]\nmatch = {a = "b"}\ngeometry = "point"', "category must be a string"),
        ('[[rule]]\nmatch = {a = "b"}\ngeometry = "point"\ncategory = "x/{b}"', "{b}"),
        ('[[rule]]\nmatch = {a = "b"}\ngeometry = "point"\ncategory = "x//y"', "empty level"),
        ('[[rule]]\nmatch = {a = "b"}\ngeometry = "point"\ncategory = "x/#"', "wildcard"),
        ('[[rule]]\nmatch = {a = "b"}\ngeometry = "point"\ncategory = "x/{a"', "brace"),
    ],
)
def test_a_wrong_rules_file_names_the_rule(tmp_path: Path, text: str, reason: str) -> None:
    rules = tmp_path / "wrong.toml"
    rules.write_text(text)
    with pytest.raises(SettingsError, match=reason) as caught:
        import_world([VILLAGE], tmp_path / "world", rules=rules)
    assert str(caught.value).startswith(f"rules {rules}: ")
    assert "\n" not in str(caught.value)


def test_a_missing_rules_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        load_rules(tmp_path / "none.toml")
