"""Peids stay with their entities from one extract to the next, and never meet."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

import osmium
import pytest
import shapely

from world.long_work import silent
from world.sources.candidates import ProblemKind
from world.sources.osm import entities as osm_entities
from world.sources.osm import peids
from world.sources.osm.entities import read_osm
from world.sources.osm.rules import load_rules

EXTRACTS = Path(__file__).resolve().parents[3] / "extracts"
MONACO = Path(__file__).resolve().parents[4] / "data" / "monaco.osm.pbf"


def entities_of(*paths: Path) -> dict[int, str]:
    """Peid -> what the entity is, to the last digit."""
    rows, _ = read_osm(list(paths), load_rules(), silent)
    described = [
        f"{shapely.to_wkt(rows.geometries[n], -1)} {rows.categories[n]} {rows.names[n]}"
        for n in range(len(rows))
    ]
    result = dict(zip(rows.peids.tolist(), described, strict=True))
    assert len(result) == len(rows)
    return result


def village(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = (EXTRACTS / "village.osm").read_text()
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    changed = tmp_path / "changed.osm"
    changed.write_text(text)
    return changed


def locator_of(path: Path) -> dict[int, str]:
    rows, _ = read_osm([path], load_rules(), silent)
    return {int(peid): rows.locator(n) for n, peid in enumerate(rows.peids)}


def test_a_new_junction_renumbers_only_the_segment_that_it_splits(tmp_path: Path) -> None:
    """New roads meet High Street at 125 and the roundabout at 157."""
    before = entities_of(EXTRACTS / "village.osm")
    new_nodes = """<node id="301" lat="43.001" lon="7.005"/>
                   <node id="302" lat="43.005" lon="7.008"/>"""
    road = '<tag k="highway" v="service"/>'
    new_ways = f"""<way id="31"><nd ref="125"/><nd ref="301"/>{road}</way>
                   <way id="32"><nd ref="157"/><nd ref="302"/>{road}</way>"""
    changed = village(
        tmp_path,
        ("<!-- straight on", f"{new_nodes}<!-- straight on"),
        ("<!-- a lawn with a hole -->", f"{new_ways}<!-- a lawn with a hole -->"),
    )
    after = entities_of(changed)
    names_before, names_after = locator_of(EXTRACTS / "village.osm"), locator_of(changed)
    assert {names_before[peid] for peid in before.keys() - after.keys()} == {
        "way 1, nodes 124 to 126",
        "way 6, nodes 147 to 156",
    }
    assert {names_after[peid] for peid in after.keys() - before.keys()} == {
        "way 1, nodes 124 to 125",
        "way 1, nodes 125 to 126",
        "way 6, nodes 147 to 157",
        "way 6, nodes 157 to 156",
        "way 31, nodes 125 to 301",
        "way 32, nodes 157 to 302",
    }
    assert all(after[peid] == before[peid] for peid in before.keys() & after.keys())


def test_a_road_drawn_the_other_way_round_keeps_its_peids(tmp_path: Path) -> None:
    refs = "".join(f'<nd ref="{node}"/>' for node in range(120, 127))
    reverse = "".join(f'<nd ref="{node}"/>' for node in range(126, 119, -1))
    changed = village(tmp_path, (refs, reverse))
    assert entities_of(changed).keys() == entities_of(EXTRACTS / "village.osm").keys()


def test_one_more_bend_in_a_road_keeps_its_peid(tmp_path: Path) -> None:
    changed = village(
        tmp_path,
        ("  <!-- straight on", '  <node id="301" lat="43.0025" lon="7.0021"/>\n  <!-- straight on'),
        ('<nd ref="122"/><nd ref="132"/>', '<nd ref="122"/><nd ref="301"/><nd ref="132"/>'),
    )
    before, after = entities_of(EXTRACTS / "village.osm"), entities_of(changed)
    assert after.keys() == before.keys()
    bent = [peid for peid in before if before[peid] != after[peid]]
    assert [locator_of(changed)[peid] for peid in bent] == ["way 2, nodes 122 to 142"]


@pytest.fixture(scope="module")
def thinned_monaco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Monaco before a tenth of its ways and nodes with tags was mapped."""
    path = tmp_path_factory.mktemp("monaco") / "thinned.osm.pbf"
    chance = random.Random(0)  # noqa: S311  the same tenth each time
    with osmium.SimpleWriter(str(path)) as writer:
        for element in osmium.FileProcessor(str(MONACO)):
            tagged_node = element.type_str() == "n" and len(element.tags) > 0
            dispensable = tagged_node or element.type_str() == "w"
            if not (dispensable and chance.random() < 0.1):
                writer.add(element)
    return path


def test_all_that_did_not_change_in_monaco_keeps_its_peid(thinned_monaco: Path) -> None:
    before, after = entities_of(thinned_monaco), entities_of(MONACO)
    peid_after = {what: peid for peid, what in after.items()}
    assert len(peid_after) > 0.99 * len(after)  # hardly any two entities look the same
    unchanged = [peid for peid, what in before.items() if what in peid_after]
    assert len(unchanged) > 0.8 * len(before)
    assert [peid for peid in unchanged if after.get(peid) != before[peid]] == []


def test_no_peid_depends_on_the_process(tmp_path: Path) -> None:
    """Python's own hash() changes from one process to the next."""
    code = (
        "from pathlib import Path; from world.sources.osm.entities import read_osm\n"
        "from world.sources.osm.rules import load_rules; from world.long_work import silent\n"
        f"rows, _ = read_osm([Path({str(EXTRACTS / 'village.osm')!r})], load_rules(), silent)\n"
        "print(sorted(rows.peids.tolist()))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        ).stdout
        for seed in ("1", "2")
    }
    assert printed == {f"{sorted(entities_of(EXTRACTS / 'village.osm'))}\n"}


def test_a_collision_is_reported_and_the_oldest_way_keeps_its_peid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hash that gives the same number to all at first: each but one needs its second choice."""
    original = peids.segment_peid
    contested = peids.SEGMENT_BASE + 7

    def colliding(way: int, nodes: tuple[int, ...], attempt: int = 0) -> int:
        return original(way, nodes, attempt) if attempt else contested

    monkeypatch.setattr(osm_entities.peids, "segment_peid", colliding)
    rows, problems = read_osm([EXTRACTS / "village.osm"], load_rules(), silent)
    assert len(set(rows.peids.tolist())) == len(rows)
    segments = rows.where(rows.peids >= peids.SEGMENT_BASE)
    holder = segments.ordinals[segments.peids == contested].tolist()
    assert [rows.locator(ordinal) for ordinal in holder] == ["way 1, nodes 120 to 122"]
    collisions = [p for p in problems if p.kind is ProblemKind.PEID_COLLISION]
    assert {p.peid for p in collisions} == set(segments.peids.tolist()) - {contested}
    assert all(problem.kept for problem in collisions)


def test_the_ranges_of_osm_elements_do_not_meet() -> None:
    bases = [
        peids.POINT_BASE,
        peids.LINE_BASE,
        peids.WAY_AREA_BASE,
        peids.RELATION_AREA_BASE,
        peids.SEGMENT_BASE,
    ]
    assert all(low + peids.MAX_OSM_ID < high for low, high in itertools.pairwise(bases))
    # JavaScript and all that learned JSON from it hold integers exactly up to here.
    assert peids.RELATION_AREA_BASE + peids.MAX_OSM_ID < 2**53
