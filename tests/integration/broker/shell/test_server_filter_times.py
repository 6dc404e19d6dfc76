"""Filter times of a running broker, in each mode: one message that comes alone is enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenes.surroundings import Surroundings
from tests.servers.paho_client import paho_client
from tests.servers.redis_server import RedisServer
from tests.servers.running_broker import running_broker, until


@pytest.mark.parametrize(("mode", "qos"), [("none", 1), ("memory", 0), ("redis", 1)])
def test_filter_times_come_in_every_mode(
    mode: str, qos: int, tmp_path: Path, city: Path, surroundings: Surroundings,
    redis_server: RedisServer,
) -> None:  # fmt: skip
    arguments = ["--allow-anonymous", "--http", "0", "--memberships", mode, "--world", str(city)]
    if mode == "redis":
        arguments += ["--redis", redis_server.url]
    with running_broker(tmp_path, *arguments) as broker, paho_client(broker.port) as client:
        if mode != "none":
            client.subscribe("near", ("neighborhood", surroundings.descriptor))
        assert broker.metric("spaps_filter_seconds_count") == 0
        client.publish("near", "about a road", ("peid", str(surroundings.inside)), qos=qos)
        until(lambda: broker.metric("spaps_filter_seconds_count") == 1, "one filter time")
        pairs = broker.metric("spaps_membership_pairs")
        assert (pairs > 0) == (mode != "none")
        if mode != "none":
            assert client.next()[1] == "about a road"
            client.client.unsubscribe("near")
            until(lambda: broker.metric("spaps_membership_pairs") == 0, "no pairs in force")
