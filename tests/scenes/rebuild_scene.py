"""A small world in files, subscriptions in a registry, and what a rebuild should make of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import shapely
from deltalake import DeltaTable
from pyproj import Transformer

from jobs.pipeline.engine_choice import spark_engine
from rebuild.bulk_engine import Engine
from rebuild.request import Places, RebuildRequest
from rebuild.run import rebuild
from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import (
    SubscriptionChanges,
    current_generation,
    unpacked_changes,
)
from redis_link.registry.registry_reader import registered_subscriptions
from schemas.errors import NoReferenceError
from schemas.language.descriptor_json import parse_descriptor
from schemas.language.neighborhood import neighborhood_hash
from schemas.language.notation import read_neighborhood
from schemas.membership import MEMBERSHIPS_TABLE
from schemas.redis_keys import generation_changes_key
from schemas.subscription import Registration
from spatial_udfs.exact.exact_resolver import ExactResolver
from tests.scenes.registrations import BROKER, register
from tests.scenes.source_files import write_geoparquet
from tests.servers.redis_content import Pairs, pairs_in_redis
from world.snapshot import load_snapshot

Entities = Mapping[int, tuple[list[str], Any]]

NEIGHBORHOODS = (
    "({1},{road/#},C)",
    "({1},{road/#},C) • 2(Prev,{road/#},T)",
    "({1},{road/#},C) • 2(Prev,{road/#},T) • ({2,3},{shop},DW3) visible 0001",
    "({2},{shop},DW4)",
    "({2,3},{shop},NOT DW12)",
    "({3},{#},D)",
    "({10,11},{zone},W)",
)


SRID = 25833


def place(wkt: str, srid: int = SRID) -> str:
    """A geometry in the coordinates of the town as a reference: in degrees."""
    to_degrees = Transformer.from_crs(srid, "OGC:CRS84", always_xy=True)
    drawn = shapely.from_wkt(wkt)
    degrees = shapely.transform(drawn, to_degrees.transform, interleaved=False)
    return f"at:{shapely.to_wkt(degrees, rounding_precision=12)}"


# Distances keep away from limits that rounding could cross.
NEIGHBORHOODS_OF_PLACES = (
    f"({{{place('POINT(5.5 1.5)')}}},{{shop}},DW0.9)",
    f"({{{place('POLYGON((0.1 0.1, 2.1 0.1, 2.1 2.1, 0.1 2.1, 0.1 0.1))')}}},{{shop}},CV)",
    f"({{{place('POINT(0 0)')}}},{{shop}},NOT DW9.2)",
    f"({{2,{place('POINT(1.25 6.25)')}}},{{shop}},DW0.6) • 2(Prev,{{road/#}},DW0.6) visible 101",
)


def grid_town(side: int = 8) -> dict[int, tuple[list[str], Any]]:
    """Zones 1 to 4 over a grid of roads, with a shop at each crossing."""
    half = side / 2
    town: dict[int, tuple[list[str], Any]] = {
        1: (["zone"], shapely.box(-0.5, -0.5, half, half)),
        2: (["zone"], shapely.box(half, 0, side, half)),
        3: (["zone"], shapely.box(0, half, half, side)),
        4: (["zone"], shapely.box(half, half, side, side)),
    }
    peid = 10
    for east in range(side):
        for north in range(side):
            ends = [(east, north), (east + 1, north)], [(east, north), (east, north + 1)]
            for line in ends:
                town[peid] = (["road/minor"], shapely.LineString(line))
                peid += 1
            town[peid] = (["shop"], shapely.Point(east + 0.25, north + 0.25))
            peid += 1
    return town


def edited_town() -> dict[int, tuple[list[str], Any]]:
    """One entity of each kind of change."""
    town = grid_town()
    del town[13]
    town[5] = (["road/major"], shapely.LineString([(0, 0), (1, 1)]))
    town[16] = (town[16][0], shapely.LineString([(6, 6), (7, 7)]))
    town[12] = (["road/minor"], town[12][1])
    return town


@dataclass
class RebuildScene:
    """Everything under one folder, and a Redis."""

    folder: Path
    redis_url: str
    client: RedisClient
    said: list[str] = field(default_factory=list)

    @property
    def source(self) -> Path:
        return self.folder / "world.parquet"

    @property
    def places(self) -> Places:
        return Places(
            world=str(self.folder / "lake" / "world"),
            out=str(self.folder / "lake"),
            records=self.folder / "lake" / "rebuilds",
            redis_url=self.redis_url,
        )

    def write_source(self, entities: Entities, crs: int = SRID) -> None:
        """The source file, in place of the one before."""
        rows = [
            {"peid": peid, "categories": categories, "geometry": geometry}
            for peid, (categories, geometry) in entities.items()
        ]
        write_geoparquet(self.source, rows, crs=crs)

    def subscribe(
        self, neighborhoods: Iterable[str], client_id: str = "tester", broker: str = BROKER
    ) -> list[int]:
        """Register each of them; their subIds."""
        numbers = []
        for nsid, notation in enumerate(neighborhoods, start=1):
            neighborhood = read_neighborhood(notation)
            text, digest = neighborhood.to_json(), neighborhood_hash(neighborhood)
            entry = Registration(client_id, nsid, "#", text, digest, broker)
            numbers.append(register(self.client, entry))
        return numbers

    def request(self, **options: Any) -> RebuildRequest:
        """A rebuild of the source by the exact resolver, which leaves nothing behind."""
        given: dict[str, Any] = {
            "engine": Engine.EXACT,
            "grace_seconds": 0.0,
            "workers": 1,
            "say": self.said.append,
            "bulk": spark_engine,
        }
        return RebuildRequest(self.places, (str(self.source),), **(given | options))

    def rebuild(self, **options: Any) -> int:
        """Rebuild; the version that is in force then."""
        return rebuild(self.request(**options)).version

    def expected_rows(self, version: int) -> set[tuple[int, int, int]]:
        """What the registered subscriptions select, by the exact resolver alone."""
        resolver = ExactResolver(load_snapshot(self.places.world, version))
        rows = set()
        for sub_id, entry in registered_subscriptions(self.client):
            try:
                peids, stages = resolver.resolve(parse_descriptor(entry.descriptor)).rows()
            except NoReferenceError:
                continue
            rows |= {(sub_id, p, s) for p, s in zip(peids.tolist(), stages.tolist(), strict=True)}
        return rows

    def rows_in_delta(self, version: int) -> list[tuple[int, int, int]]:
        """All rows of a version; one that stands twice would show."""
        table = DeltaTable(f"{self.places.out}/{MEMBERSHIPS_TABLE}").to_pyarrow_table(
            filters=[("version", "=", version)]
        )
        columns = [table.column(name).to_pylist() for name in ("subId", "peid", "stageNo")]
        return sorted(zip(*columns, strict=True))

    def changes_of(self, generation: int) -> SubscriptionChanges:
        """What the switch to this generation changed, as the brokers read it."""
        content: Any = self.client.get(generation_changes_key(generation))
        assert content is not None
        return unpacked_changes(content)

    def pairs_in_force(self) -> Pairs:
        """What Redis holds now, read key by key."""
        facts = current_generation(self.client)
        assert facts is not None
        found = pairs_in_redis(self.client, facts.generation)
        assert len(found) == facts.pairs
        return found

    def assert_in_force(self, version: int) -> None:
        """Delta and Redis hold exactly what this version gives."""
        facts = current_generation(self.client)
        assert facts is not None
        assert facts.version == version
        expected = self.expected_rows(version)
        assert self.rows_in_delta(version) == sorted(expected)
        assert self.pairs_in_force() == {(peid, sub_id) for sub_id, peid, _ in expected}

    def records(self) -> list[dict[str, Any]]:
        """The records as they lie on the disk, oldest first."""
        paths = sorted(self.places.records.glob("*/record.json"))
        return [json.loads(path.read_text()) for path in paths]
