"""The running broker's log of what clients were refused: whole, and bounded under a flood."""

from __future__ import annotations

import re
from pathlib import Path

from tests.scenes.broker.guarded_broker import (
    NO_WORLD,
    NOT_AUTHORIZED,
    access_files,
    login,
    publish,
    subscribe,
)
from tests.servers.raw_client import RawClient, publish_packet
from tests.servers.running_broker import RunningBroker, running_broker


def test_who_was_refused_what_and_why(guarded: RunningBroker) -> None:
    with login(guarded, "alice", "phone\n") as alice, login(guarded, "bob", "tablet") as bob:
        assert publish(alice, "home/safe") == NOT_AUTHORIZED
        assert subscribe(bob, "home/#") == NOT_AUTHORIZED
    guarded.wait_for_log("tablet")
    guarded.wait_for_log("client disconnected: ")
    log = guarded.log
    place = r"from='127\.0\.0\.1:\d+'"
    alice_is = rf"client='phone\\n' user='alice' {place}"
    bob_is = rf"client='tablet' user='bob' {place}"
    for line in (
        rf"INFO client connected {alice_is}",
        rf"publish refused: not_authorized, [^=]+ {alice_is} topic='home/safe'",
        rf"subscription refused: not_authorized, [^=]+ {bob_is} filter='home/#' filters_refused=1",
    ):
        assert re.search(line, log), line


def test_a_flood_of_clients_does_not_fill_the_disk(tmp_path: Path) -> None:
    config = access_files(tmp_path) + "[broker.limits]\nlog_lines_of_address = 20\n"
    with running_broker(tmp_path, *NO_WORLD, config=config) as broker:
        for number in range(100):
            with RawClient(broker.port) as client:
                client.connect(client_id=f"{number}-{'x' * 200}", user="nobody", password=b"-")
        with RawClient(broker.port) as client:
            client.send(b"\x30\x02no")
            assert client.is_closed()
        assert broker.log.count("client refused") < 60
        assert "log_limit='address'" in broker.log
    with running_broker(tmp_path, *NO_WORLD, config=access_files(tmp_path)) as broker:
        with login(broker, "bob", "one") as client:
            for _ in range(500):
                client.send(publish_packet("forbidden", b"x"))
            client.ping()
        broker.wait_for_log("client disconnected")
        assert broker.log.count("publish refused") < 100
        assert "refusals_left_out=" in broker.log
