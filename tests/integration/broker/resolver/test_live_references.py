"""References by key, by name and by place through the live resolver, on one world and on two."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import shapely

from broker.codec.reason_codes import ReasonCode
from broker.resolver.live_resolver import LiveResolver
from broker.resolver.resolver_requests import ResolverLimits
from schemas.language.neighborhood import neighborhood_hash
from schemas.language.notation import read_neighborhood
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.place_geometries import projected_places
from testing.world_writers import entity_rows
from tests.scenes.broker.resolvers import ONE, present, refusal
from tests.strategies.worlds import table_of
from world.versions.store import WorldStore

SRID = 32632
HERE = "POINT(9 45)"
NAMES = ["here", "near", "far", "twin", "twin"]


def row_of_shops(names: list[str]) -> EntityTable:
    """Shops 20 to 24, a hundred metres from each other; the first stands at ``HERE``."""
    [origin] = projected_places((HERE,), SRID)[0]
    table = table_of(
        (20 + at, ("shop",), shapely.Point(origin.x + 100 * at, origin.y)) for at in range(5)
    )
    keys = pa.array([f"shop/{at}" for at in range(5)])
    return replace(table, srid=SRID, names=np.array(names, dtype=object), keys=keys)


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world of two versions: in the second another shop has the name "near"."""
    folder = tmp_path_factory.mktemp("street")
    store = WorldStore(str(folder))
    for names in (NAMES, ["here", "shut", "near", "twin", "twin"]):
        store.write_version(entity_rows(row_of_shops(names)), srid=SRID)
    return folder


@pytest.fixture(scope="module")
def asked(runner: asyncio.Runner, street: Path) -> Iterator[LiveResolver]:
    resolver = LiveResolver(str(street), ResolverLimits())
    runner.run(resolver.start(version=1))
    yield resolver
    runner.run(resolver.stop())


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("({key:shop/1},{#},DW100)", '{"refs":[21],"stages":[{"cats":["#"],"cond":"DW100"}]}'),
        ('{"refs":[{"name":"near"}],"stages":[{"cats":["#"],"cond":"DW100"}]}',
         '{"refs":[21],"stages":[{"cats":["#"],"cond":"DW100"}]}'),
    ],
)  # fmt: skip
def test_keys_and_names_are_kept_as_peids(
    written: str, kept: str, runner: asyncio.Runner, asked: LiveResolver
) -> None:
    found = runner.run(present(asked, written))
    assert found.peids.tolist() == [20, 22]
    assert (found.is_rewritten, found.descriptor) == (True, kept)
    assert found.neighborhood_hash == neighborhood_hash(read_neighborhood(kept))
    assert found.warnings == ()


def test_a_place_is_kept_in_its_canonical_form(runner: asyncio.Runner, asked: LiveResolver) -> None:
    written = {"at": {"type": "Point", "coordinates": [9.0, 45.0, 100]}}
    text = json.dumps({"refs": [written], "stages": [{"cats": ["#"], "cond": "DW101"}]})
    found = runner.run(present(asked, text))
    assert found.peids.tolist() == [20, 21]
    assert json.loads(found.descriptor)["refs"] == [{"at": HERE}]
    again = runner.run(present(asked, f"({{at:{HERE}}},{{#}},DW101)"))
    assert again.neighborhood_hash == found.neighborhood_hash


def test_what_is_unknown_is_a_warning_beside_what_exists_and_a_refusal_alone(
    runner: asyncio.Runner, asked: LiveResolver
) -> None:
    found = runner.run(present(asked, "({20,7,key:no,name:nobody},{#},DW100)"))
    assert found.peids.tolist() == [21]
    assert found.warnings == ('references that do not exist: 7, key:no, name:"nobody"',)
    assert json.loads(found.descriptor)["refs"] == [20, 7]
    code, text = runner.run(refusal(asked, "({key:no,name:nobody},{#},DW100)"))
    assert code == ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
    assert text == (
        'no reference exists in world version 1: key:no, name:"nobody" '
        "(a name counts exactly as it is written; 'spaps find' searches)"
    )


def test_a_doubtful_name_and_a_broken_place_are_refused(
    runner: asyncio.Runner, asked: LiveResolver
) -> None:
    reason, text = runner.run(refusal(asked, "({name:twin},{#},DW100)"))
    assert reason is ReasonCode.TOPIC_FILTER_INVALID
    assert text.startswith('stage 1: 2 entities have the name "twin": 23 (key shop/3, shop), 24')
    crossed = "POLYGON((0 0,1 1,1 0,0 1,0 0))"
    reason, text = runner.run(refusal(asked, f"({{at:{crossed}}},{{#}},CV)"))
    assert reason is ReasonCode.TOPIC_FILTER_INVALID
    assert text.startswith(f"stage 1: the place {crossed} is broken: Self-intersection")


def test_a_name_stands_for_the_same_entity_in_the_coming_world(
    runner: asyncio.Runner, asked: LiveResolver
) -> None:
    """There another shop has the name, but the subscription is about the one it was made for."""

    async def ask() -> None:
        assert await asked.prepare(2)
        try:
            resolution = await asked.resolve("({name:near},{#},DW100)", ONE)
            by_place = await asked.resolve(f"({{at:{HERE}}},{{#}},DW101)", ONE)
        finally:
            await asked.drop_coming()
        assert resolution.present.peids.tolist() == [20, 22]
        assert resolution.coming is not None
        assert resolution.coming.peids.tolist() == [20, 22]
        assert by_place.coming is not None
        assert by_place.coming.peids.tolist() == [20, 21]

    runner.run(ask())
