"""OSM files as they come: formats, damage, order, and several that belong together."""

from __future__ import annotations

import gzip
from pathlib import Path

import osmium
import pytest
import shapely

from schemas.errors import SourceError
from world.imports.world_import import import_world
from world.long_work import silent
from world.snapshot import load_snapshot
from world.sources.candidates import Problem
from world.sources.osm.entities import read_osm
from world.sources.osm.rules import load_rules

TESTS = Path(__file__).resolve().parents[3]
VILLAGE = TESTS / "extracts" / "village.osm"
MONACO = TESTS.parent / "data" / "monaco.osm.pbf"
ROAD = '<tag k="highway" v="residential"/>'
SHOP = '<tag k="shop" v="yes"/>'


def extract(path: Path, *elements: str) -> Path:
    path.write_text(f'<osm version="0.6">{"".join(elements)}</osm>')
    return path


def node(number: int, tags: str = "", *, version: int = 1, x: float | None = None) -> str:
    """Node n lies n steps to the east, where nothing else is said."""
    longitude = 7 + (number if x is None else x) / 1000
    return f'<node id="{number}" version="{version}" lat="43" lon="{longitude}">{tags}</node>'


def way(number: int, *nodes: int, tags: str = ROAD, version: int = 1) -> str:
    refs = "".join(f'<nd ref="{ref}"/>' for ref in nodes)
    return f'<way id="{number}" version="{version}">{refs}{tags}</way>'


def read(*paths: Path) -> tuple[set[str], list[Problem]]:
    """Locators of all entities, and the problems."""
    rows, problems = read_osm(paths, load_rules(), silent)
    return {rows.locator(position) for position in range(len(rows))}, problems


def shown(problems: list[Problem]) -> list[tuple[str, bool, str]]:
    return [(problem.kind.value, problem.kept, problem.locator) for problem in problems]


def test_all_formats_give_the_same_world(tmp_path: Path) -> None:
    zipped = tmp_path / "village.osm.gz"
    zipped.write_bytes(gzip.compress(VILLAGE.read_bytes()))
    binary = tmp_path / "village.osm.pbf"
    with osmium.SimpleWriter(str(binary)) as writer:
        for element in osmium.FileProcessor(str(VILLAGE)):
            writer.add(element)
    checksums = {
        import_world([source], tmp_path / source.name.replace(".", "-")).facts.checksum
        for source in (VILLAGE, zipped, binary)
    }
    assert len(checksums) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.osm.pbf", MONACO.read_bytes()[:300_000]),
        ("head.osm.pbf", MONACO.read_bytes()[:20]),
        ("empty.osm.pbf", b""),
        ("text.osm.pbf", b"hello"),
        ("xml.osm.pbf", VILLAGE.read_bytes()),
        ("cut.osm", VILLAGE.read_bytes()[:3000]),
        ("empty.osm", b""),
        ("text.osm", b"hello"),
        ("page.osm", b"<html></html>"),
        ("cut.osm.gz", gzip.compress(VILLAGE.read_bytes())[:-200]),
        ("value.osm", b'<osm version="0.6"><node id="x" lat="1" lon="1"/></osm>'),
        ("place.osm", b'<osm version="0.6"><node id="1" lat="north" lon="1"/></osm>'),
        ("old.osm", b'<osm version="0.5"></osm>'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_or_mistaken_file_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SourceError, match=name) as caught:
        import_world([path], tmp_path / "world")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "world" / "entities").exists()


def test_ways_before_their_nodes_are_refused(tmp_path: Path) -> None:
    path = extract(tmp_path / "a.osm", way(1, 1, 2), node(1), node(2))
    with pytest.raises(SourceError, match="osmium sort"):
        read(path)


@pytest.mark.parametrize(
    "elements",
    [
        (node(2), node(1)),
        (node(1), node(1)),
        (node(1), node(2), way(2, 1, 2), way(1, 1, 2)),
        (node(1), node(2), way(1, 1, 2), way(1, 1, 2)),
        (node(1), node(-1)),
    ],
)
def test_ids_must_be_in_order_and_occur_once(tmp_path: Path, elements: tuple[str, ...]) -> None:
    with pytest.raises(SourceError, match="twice or not in order"):
        read(extract(tmp_path / "a.osm", *elements))


def test_a_history_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.osh"
    path.write_text(f'<osm version="0.6">{node(1, SHOP)}{node(1, SHOP, version=2)}</osm>')
    history = tmp_path / "a.osm.pbf"
    with osmium.SimpleWriter(osmium.io.File(str(history), "osh.pbf")) as writer:
        for element in osmium.FileProcessor(str(path)):
            writer.add(element)
    with pytest.raises(SourceError, match=r"a\.osm\.pbf: a history file"):
        read(history)


def test_elements_without_a_lasting_id_are_listed(tmp_path: Path) -> None:
    """Editors give negative ids to what was never uploaded."""
    path = extract(
        tmp_path / "a.osm", node(-2, SHOP), node(1), node(2), way(-3, 1, 2), way(7, 1, 2)
    )
    entities, problems = read(path)
    assert entities == {"way 7, nodes 1 to 2"}
    assert shown(problems) == [
        ("peid-out-of-range", False, "node -2"),
        ("peid-out-of-range", False, "way -3, nodes 1 to 2"),
    ]


def test_deleted_elements_do_not_exist(tmp_path: Path) -> None:
    gone = node(3, SHOP).replace("<node", '<node visible="false"')
    path = extract(tmp_path / "a.osm", node(1, SHOP), gone)
    assert read(path) == ({"node 1"}, [])


def test_a_node_without_a_place_is_listed(tmp_path: Path) -> None:
    path = extract(
        tmp_path / "a.osm",
        f'<node id="1">{SHOP}</node>',
        f'<node id="2" lat="91" lon="0">{SHOP}</node>',
        node(3, SHOP),
    )
    entities, problems = read(path)
    assert entities == {"node 3"}
    assert shown(problems) == [
        ("missing-geometry", False, "node 1"),
        ("missing-geometry", False, "node 2"),
    ]


def test_a_road_of_no_length_is_listed(tmp_path: Path) -> None:
    path = extract(tmp_path / "a.osm", node(1, SHOP), node(2, x=1), way(1, 1, 2))
    (problem,) = import_world([path], tmp_path / "world").problems
    assert problem.kind.value == "broken-geometry"
    assert problem.example.locator == "way 1, nodes 1 to 2"


def test_two_extracts_are_split_with_all_roads_in_sight(tmp_path: Path) -> None:
    """Way 1 is in both, the road that meets it at node 2 only in the second."""
    first = extract(tmp_path / "a.osm", node(1), node(2), node(3), way(1, 1, 2, 3))
    second = extract(
        tmp_path / "b.osm", node(1), node(2), node(3), node(9), way(1, 1, 2, 3), way(4, 2, 9)
    )
    expected = {"way 1, nodes 1 to 2", "way 1, nodes 2 to 3", "way 4, nodes 2 to 9"}
    assert read(first, second) == (expected, [])
    assert read(second, first) == (expected, [])


def test_the_same_extract_twice_is_the_same_world(tmp_path: Path) -> None:
    once = import_world([VILLAGE], tmp_path / "once").facts
    twice = import_world([VILLAGE, VILLAGE], tmp_path / "twice").facts
    assert (twice.checksum, twice.problem_counts) == (once.checksum, once.problem_counts)


def test_what_one_extract_lacks_the_other_gives(tmp_path: Path) -> None:
    first = extract(tmp_path / "a.osm", node(1), node(2), way(1, 1, 2, 3))
    second = extract(tmp_path / "b.osm", node(3))
    assert read(first, second) == ({"way 1, nodes 1 to 3"}, [])


def test_of_two_versions_the_newer_stays(tmp_path: Path) -> None:
    old = extract(tmp_path / "old.osm", node(1, SHOP), node(2, SHOP))
    new = extract(tmp_path / "new.osm", node(1, SHOP, version=2, x=50), node(3, SHOP))
    for paths in ((old, new), (new, old)):
        rows, problems = read_osm(paths, load_rules(), silent)
        assert {rows.locator(n) for n in range(len(rows))} == {"node 1", "node 2", "node 3"}
        moved = [rows.geometries[n] for n in range(len(rows)) if rows.locator(n) == "node 1"]
        assert moved == [shapely.Point(7.05, 43)]
        assert shown(problems) == [("duplicate-conflicting", False, "node 1")]
        assert problems[0].source == str(old)


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["berlin-mitte-kreuzberg", "berlin-moritzplatz"])
def test_real_extracts_of_berlin(shared_data: Path, tmp_path: Path, name: str) -> None:
    """Their boundary relations are cut off: problems, and a world all the same."""
    report = import_world([shared_data / "berlin" / f"{name}.osm.pbf"], tmp_path / "world")
    assert report.facts.srid == 32633
    assert report.facts.problem_counts["incomplete-relation"] > 0
    assert report.top_categories["road"] > 300
    assert len(load_snapshot(str(tmp_path / "world"))) == report.facts.entity_count


@pytest.mark.shared_data
def test_the_real_geoparquet_of_berlin(shared_data: Path, tmp_path: Path) -> None:
    report = import_world([shared_data / "berlin" / "world.parquet"], tmp_path, strict=True)
    assert (report.facts.entity_count, report.facts.srid) == (34_402, 25_833)
    assert report.top_categories == {"transport": 16919, "rail": 9243, "road": 8144, "zone": 96}
