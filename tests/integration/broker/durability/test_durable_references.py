"""References by key and by place on the wire, kept over a kill of the broker."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import shapely
from pyproj import Transformer

from redis_link.connection.client import connect
from schemas.language.neighborhood import neighborhood_hash
from schemas.language.notation import read_neighborhood
from tests.scenes.registry_scene import registered
from tests.scenes.surroundings import Surroundings
from tests.servers.killable_broker import Client, killable_broker
from tests.servers.redis_server import RedisServer
from world.snapshot import load_snapshot


def place_on(city: Path, peid: int) -> str:
    """A point of the entity, written as no canonical form writes it."""
    table = load_snapshot(str(city))
    [position], _ = table.positions_of(np.array([peid], np.int64))
    point = shapely.point_on_surface(table.geometries[position])
    degrees = Transformer.from_crs(table.srid, "OGC:CRS84", always_xy=True)
    return "point ( {!r}   {!r} )".format(*degrees.transform(point.x, point.y))


@pytest.mark.parametrize("form", ["notation", "json"])
def test_a_subscription_by_key_and_place_outlives_a_kill_with_its_number(
    form: str, tmp_path: Path, city: Path, surroundings: Surroundings, redis_server: RedisServer
) -> None:
    inside, outside = surroundings.inside, surroundings.outside
    place = place_on(city, inside)
    text = f"({{key:{outside},at:{place}}},{{#}},DW0.01)"
    if form == "json":
        refs = [{"key": str(outside)}, {"at": place}]
        text = json.dumps({"refs": refs, "stages": [{"cats": ["#"], "cond": "DW0.01"}]})
    options = ("--world", str(city), "--redis", redis_server.url, "--memberships", "memory")
    with closing(connect(redis_server.url)) as client:
        with killable_broker(tmp_path, *options) as (port, _):
            subscriber, publisher = Client(port, "subscriber"), Client(port, "publisher")
            subscriber.subscribe("near/#", 1, ("neighborhood", text), ("nsid", "7"))
            # A reference is no member, and the place is none of them.
            assert publisher.publish("near/a", "on the place", 1, inside) == 0
            assert publisher.publish("near/a", "at the key", 1, outside) == 16
            assert subscriber.receive(1) == ["on the place"]
            subscriber.leave()
            before = registered(client)
        [registration] = before.values()
        kept = read_neighborhood(registration.descriptor)
        assert (kept.refs, kept.keys) == ((outside,), ())
        assert kept.places == read_neighborhood(text).places
        assert registration.descriptor == kept.to_json()
        assert registration.neighborhood_hash == neighborhood_hash(kept)
        with killable_broker(tmp_path, *options) as (port, _):
            subscriber, publisher = Client(port, "subscriber"), Client(port, "publisher")
            assert subscriber.is_resumed
            assert publisher.publish("near/a", "still there", 1, inside) == 0
            assert subscriber.receive(1) == ["still there"]
            # The same again, as the client wrote it, is the same subscription.
            subscriber.subscribe("near/#", 1, ("neighborhood", text), ("nsid", "7"))
            assert publisher.publish("near/a", "again", 1, inside) == 0
            assert subscriber.receive(1) == ["again"]
            assert registered(client) == before
            subscriber.leave()
            publisher.leave()
