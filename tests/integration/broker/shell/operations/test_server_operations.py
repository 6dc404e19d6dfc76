"""What an operator sees: the ready line, health, metrics, $SYS, logs, and errors at the start."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from pathlib import Path

import pytest

from tests.scenes.surroundings import Surroundings
from tests.servers.paho_client import paho_client
from tests.servers.raw_client import (
    PUBLISH,
    RawClient,
    connect_packet,
    publish_packet,
    subscribe_packet,
)
from tests.servers.running_broker import (
    COMMAND,
    PATIENCE,
    RunningBroker,
    running_broker,
    until,
)


def test_health_says_what_is_served(open_broker: RunningBroker) -> None:
    health = open_broker.health()
    assert health["status"] == "ok"
    assert health["world_version"] == 2
    assert health["memberships"] == "memory"
    assert health["problems"] == []


def test_metrics_follow_what_happens(
    open_broker: RunningBroker, surroundings: Surroundings
) -> None:
    def figures() -> dict[str, float]:
        lines = re.findall(r"^(spaps_[^ ]+) (\S+)$", open_broker.page("/metrics"), re.MULTILINE)
        return {name: float(value) for name, value in lines}

    open_broker.wait_until_quiet()
    before = figures()
    with paho_client(open_broker.port) as client:
        client.subscribe("metrics", ("neighborhood", surroundings.descriptor))
        client.publish("metrics", "in", ("peid", str(surroundings.inside)), qos=0)
        client.publish("metrics", "out", ("peid", str(surroundings.outside)))
        client.publish("metrics", "bad", ("peid", "minus one"), qos=0)
        client.next()
        during = figures()

        def sampled() -> bool:
            for _ in range(20):
                client.publish("metrics", "out", ("peid", str(surroundings.outside)), qos=0)
            return figures()["spaps_filter_seconds_count"] > 0

        until(sampled, "filter times")
    grown = {name: value - before.get(name, 0) for name, value in during.items()}
    assert grown["spaps_publishes_received_total"] >= 3
    assert grown["spaps_publishes_sent_total"] == 1
    assert grown["spaps_matches_total"] == 1
    assert grown['spaps_drops_total{cause="bad_peid"}'] == 1
    assert grown["spaps_connections"] == 1
    assert grown["spaps_neighborhoods"] == 1
    assert during["spaps_world_version"] == 2
    assert during["spaps_generation"] == 0
    assert during["spaps_membership_pairs"] >= 1


# What operators are promised, by the names that dashboards are built on.
PROMISED = {
    "spaps_publishes_received_total",
    "spaps_publishes_sent_total",
    "spaps_bytes_received_total",
    "spaps_bytes_sent_total",
    "spaps_filter_seconds_bucket",
    "spaps_filter_seconds_count",
    "spaps_matches_total",
    "spaps_drops_total",
    "spaps_queued_messages",
    "spaps_queued_bytes",
    "spaps_in_flight_messages",
    "spaps_longest_queue",
    "spaps_retained_messages",
    "spaps_retained_bytes",
    "spaps_connections",
    "spaps_sessions",
    "spaps_subscriptions",
    "spaps_neighborhoods",
    "spaps_membership_pairs",
    "spaps_world_version",
    "spaps_generation",
    "spaps_resolutions_total",
    "process_resident_memory_bytes",
    "process_open_fds",
}
CAUSES = ("slow_consumer", "queue_full", "expired", "too_large", "not_allowed", "bad_peid")


def test_the_metrics_that_are_promised_are_there(open_broker: RunningBroker) -> None:
    page = open_broker.page("/metrics")
    names = set(re.findall(r"^(\w+)(?:\{.*\})? ", page, re.MULTILINE))
    assert PROMISED - names == set()
    for cause in CAUSES:
        assert f'spaps_drops_total{{cause="{cause}"}}' in page


def test_a_gateway_rule_of_the_settings_serves_publishers_without_properties(
    city: Path, surroundings: Surroundings, tmp_path: Path
) -> None:
    config = '[broker]\ngateway = ["sensor/{peid}/temperature"]\n'
    arguments = ("--world", str(city), "--allow-anonymous")
    with (
        running_broker(tmp_path, *arguments, config=config) as broker,
        paho_client(broker.port) as client,
    ):
        client.subscribe("sensor/#", ("neighborhood", surroundings.descriptor))
        client.publish(f"sensor/{surroundings.outside}/temperature", "outside", qos=0)
        client.publish(f"sensor/{surroundings.inside}/other", "no rule for it", qos=0)
        client.publish(f"sensor/{surroundings.inside}/temperature", "inside", qos=0)
        assert client.next()[1] == "inside"


def test_sys_topics_have_mosquittos_names(open_broker: RunningBroker) -> None:
    wanted = {"$SYS/broker/version", "$SYS/broker/uptime", "$SYS/broker/clients/connected"}
    seen: set[str] = set()
    with RawClient(open_broker.port) as client:
        client.send(connect_packet("sys") + subscribe_packet("$SYS/broker/#"))
        while not wanted <= seen:
            first, body = client.read_packet()
            if first & 0xF0 == PUBLISH:
                size = int.from_bytes(body[:2], "big")
                seen.add(body[2 : 2 + size].decode())


def test_logs_as_json_without_payloads_and_secrets(tmp_path: Path) -> None:
    config = '[broker]\nlog_format = "json"\nlog_level = "debug"\n'
    arguments = ("--memberships", "none", "--allow-anonymous")
    with running_broker(tmp_path, *arguments, config=config) as broker:
        with RawClient(broker.port) as client:
            client.connect(client_id="visible", user="alice", password=b"hunter2")
            client.send(publish_packet("topic", b"the payload"))
            client.ping()
        with RawClient(broker.port) as old:
            old.send(b"\x10\x0c\x00\x04MQTT\x03\x02\x00\x3c\x00\x00")
            assert old.is_closed()
        broker.wait_for_log("not served")
        lines = [json.loads(line) for line in broker.log.splitlines()]
    assert {"time", "level", "logger", "message"} <= set(lines[0])
    logged = json.dumps(lines)
    assert "hunter2" not in logged
    assert "the payload" not in logged


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--world", "nowhere"], "no world at nowhere"),
        (["--memberships", "some"], "broker.memberships must be memory, redis or none"),
        (["--memberships", "redis"], "broker.memberships = redis needs Redis"),
        (["--listen", "nonsense:port"], "broker.listen must be HOST:PORT"),
        (["--http", "here:there"], "broker.http must be HOST:PORT"),
        (["--config", "absent.toml"], "absent.toml: No such file"),
    ],
)
def test_what_is_wrong_at_the_start_is_one_line(
    arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "lake" / "world").mkdir(parents=True)
    done = subprocess.run(
        [*COMMAND, "--listen", "127.0.0.1:0", "--allow-anonymous", *arguments],
        capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_a_redis_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--listen", "127.0.0.1:0", "--memberships", "none", "--allow-anonymous",
         "--redis", "redis://127.0.0.1:1"],
        capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Connection refused" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for option in ("--listen", "--http"):
            done = subprocess.run(
                [*COMMAND, "--listen", "127.0.0.1:0", "--memberships", "none", option, address],
                capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=tmp_path,
            )  # fmt: skip
            assert done.returncode == 2
            what = {"--listen": "listener default", "--http": "broker.http"}[option]
            assert done.stderr.endswith(f"spaps: {what} at {address}: Address already in use\n")
