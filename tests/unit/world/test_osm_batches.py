"""What executors do with OSM elements where an extract would have to be made for it at length."""

from __future__ import annotations

import pyarrow as pa
import pytest
import shapely

from schemas.errors import SourceError
from world.batches.osm_batches import CANDIDATES, other_peids
from world.sources.candidates import ProblemKind
from world.sources.osm.peids import seeded_peid, segment_peid
from world.sources.osm.spark_extract import LocatedWays

REFS = pa.list_(
    pa.struct(
        [("position", pa.int32()), ("node", pa.int64()), ("x", pa.int64()), ("y", pa.int64())]
    )
)


def candidate(seed: list[int] | None) -> pa.RecordBatch:
    row = {
        "peid": 5,
        "categories": ["road"],
        "geometry": shapely.to_wkb(shapely.LineString([(7, 43), (8, 43)])),
        "locator": "way 9, nodes 1 to 2",
        "seed": seed,
    }
    return pa.RecordBatch.from_pylist([row], schema=CANDIDATES)


def test_a_segment_whose_peid_is_taken_gets_its_next_choice() -> None:
    seed = [9, 1, 2, 0]
    assert seeded_peid((9, 1, 2, 0), 1) == segment_peid(9, (2, 1), attempt=1)
    entity, problem = other_peids("x.osm.pbf", 1)([candidate(seed)])
    [moved] = entity.to_pylist()
    assert (moved["peid"], moved["seed"], moved["kind"]) == (segment_peid(9, (1, 2), 1), seed, None)
    [remark] = problem.to_pylist()
    assert (remark["kind"], remark["kept"], remark["peid"]) == (
        ProblemKind.PEID_COLLISION.value,
        True,
        moved["peid"],
    )
    assert remark["reason"].endswith("it got its 2. choice")


def test_an_element_that_is_no_segment_was_twice_in_the_file() -> None:
    with pytest.raises(SourceError, match="twice"):
        list(other_peids("x.osm.pbf", 1)([candidate(None)]))


def test_nodes_of_a_way_come_in_order_and_those_without_place_are_known() -> None:
    refs = [
        [ref(1, 12, 70), ref(0, 11, None), ref(2, 11, None)],
        [{"position": None, "node": None, "x": None, "y": None}],
        [ref(0, 12, 70)],
    ]
    ways = LocatedWays.of(pa.array([3, 4, 5]), pa.array(refs, REFS))
    assert (ways.ids, ways.nodes) == ([3, 4, 5], [[11, 12, 11], [], [12]])
    assert ways.places == {12: (70, 1)}


@pytest.mark.parametrize(
    ("ids", "refs"), [([3], [[(0, 1), (0, 1)]]), ([3, 3], [[(0, 1)], [(0, 2)]])]
)
def test_an_element_that_is_twice_in_the_file_is_an_error(
    ids: list[int], refs: list[list[tuple[int, int]]]
) -> None:
    rows = [[ref(position, node, 1) for position, node in way] for way in refs]
    with pytest.raises(SourceError, match="twice"):
        LocatedWays.of(pa.array(ids), pa.array(rows, REFS))


def ref(position: int, node: int, x: int | None) -> dict[str, int | None]:
    return {"position": position, "node": node, "x": x, "y": None if x is None else 1}
