"""Every refusal of docs/promise.md on a running broker: its code and its reason string."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mqtt5
import pytest

from tests.broker_core import encode
from tests.scenes.surroundings import Surroundings
from tests.servers.raw_client import PUBLISH, RawClient, varint
from tests.servers.running_broker import RunningBroker, running_broker

PAGE = Path(__file__).resolve().parents[4] / "docs" / "promise.md"
UNKNOWN = "({1,2},{road/#},T)"
# test_resolver_away.py shows these on a broker that has just started.
ELSEWHERE = {("PUBACK", 0x80), ("PUBREC", 0x80)}
BUSY = ("SUBACK", 0x80)

CONFIG = """
[broker]
acl_file = "{folder}/rules"
gateway = ["open/gate/{{peid}}"]
[broker.limits]
filters_per_packet = 2
topic_levels = 5
retained_messages = 0
neighborhood_members = 1
neighborhoods = 1
waiting_neighborhoods = 1
"""


@pytest.fixture(scope="module")
def broker(city: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("refusals")
    (folder / "rules").write_text("topic readwrite open/#\n")
    arguments = ("--world", str(city), "--allow-anonymous")
    with running_broker(folder, *arguments, config=CONFIG.format(folder=folder)) as running:
        yield running


def near(descriptor: str, *nsids: str, topic_filter: str = "open/#") -> bytes:
    pairs = [("neighborhood", descriptor), *(("nsid", nsid) for nsid in nsids)]
    properties = b"".join(encode.user(name, value) for name, value in pairs)
    return encode.subscribe((topic_filter, 0), properties=properties)


def message(topic: str, *peids: str, qos: int = 1, retain: bool = False) -> bytes:
    properties = b"".join(encode.user("peid", peid) for peid in peids)
    return encode.publish(topic, b"x", qos=qos, packet_id=1, properties=properties, retain=retain)


def answer_to(client: RawClient, data: bytes) -> Any:
    """Return the next packet that is no PUBLISH."""
    client.send(data)
    while True:
        first, body = client.read_packet()
        if first & 0xF0 != PUBLISH:
            return mqtt5.read(memoryview(bytes([first]) + varint(len(body)) + body))[0]


def said(packet: Any) -> tuple[str, int, str]:
    """Return the name of a packet, its code, and its reason string."""
    name = type(packet).__name__.removesuffix("Packet").upper()
    codes = getattr(packet, "reason_codes", None) or [packet.reason_code]
    return name, int(codes[0]), packet.reason_str or ""


def rows(road: str) -> list[tuple[bytes, str, int, str]]:
    """Return packets, each with the answer to it: packet, code, and a pattern of the text."""
    return [
        (near(UNKNOWN), "SUBACK", 0x83, r"no reference exists in world version 2: 1, 2"),
        (near("@old"), "SUBACK", 0x83, "'old' is not known: named neighborhoods are kept in Redis"),
        (near("@old town"), "SUBACK", 0x8F, "cannot name a neighborhood"),
        (encode.subscribe(("$neighborhood/old", 0)), "SUBACK", 0x8F, "NAME/filter"),
        (encode.subscribe(("closed/a", 0)), "SUBACK", 0x87, "no right to subscribe to closed/a"),
        (encode.subscribe(("open/a#", 0)), "SUBACK", 0x8F, "#"),
        (near("({1},{road/#},Z)"), "SUBACK", 0x8F, r"stage 1: .*expected"),
        (near('{"refs": [1], "stages": []}'), "SUBACK", 0x8F, "stages"),
        (near(UNKNOWN, "x"), "SUBACK", 0x8F, "nsid must be a decimal integer"),
        (near(UNKNOWN, "1", "2"), "SUBACK", 0x8F, "each topic filter needs an nsid of its own"),
        (near("({" + road + "},{#},D)"), "SUBACK", 0x97, "more members than the 1 allowed"),
        (encode.subscribe(*[("open/a", 0)] * 3), "SUBACK", 0x97, "3 topic filters in one packet"),
        (encode.unsubscribe("a", "b", "c"), "UNSUBACK", 0x83, "at most 2 are accepted"),
        (encode.unsubscribe("a", properties=encode.user("nsid", "-")), "UNSUBACK", 0x8F, "nsid"),
        (message("open/a"), "PUBACK", 0x10, "^$"),
        (message("open/a", "1"), "PUBACK", 0x10, "the world has no entity 1$"),
        (message("open/a", "1", qos=2), "PUBREC", 0x10, "the world has no entity 1$"),
        (message("open/a", road), "PUBACK", 0x10, f"matches; the world has entity {road}$"),
        (message("open/gate/1"), "PUBACK", 0x10, "the world has no entity 1$"),
        (message("open/a", "one"), "PUBACK", 0x83, "decimal integer"),
        (message("open/a", "one", qos=2), "PUBREC", 0x83, "decimal integer"),
        (message("open/a", "1", "2"), "PUBACK", 0x83, "more than one peid"),
        (message("open/gate/1", "2"), "PUBACK", 0x83, "1"),
        (message("closed/a"), "PUBACK", 0x87, "no right to publish to closed/a"),
        (message("closed/a", qos=2), "PUBREC", 0x87, "no right to publish to closed/a"),
        (message("$SYS/a"), "PUBACK", 0x87, r"\$SYS/"),
        (message("open/1/2/3/4/5"), "PUBACK", 0x90, "more than 5 levels"),
        (message("open/1/2/3/4/5", qos=2), "PUBREC", 0x90, "more than 5 levels"),
        (message("open/a", retain=True), "PUBACK", 0x97, "retained messages"),
        (message("open/a", qos=2, retain=True), "PUBREC", 0x97, "retained messages"),
    ]  # fmt: skip


def test_a_refusal_says_what_to_do(broker: RunningBroker, surroundings: Surroundings) -> None:
    for data, name, code, text in rows(str(surroundings.inside)):
        with RawClient(broker.port) as client:
            client.connect()
            answer = said(answer_to(client, data))
        assert answer[:2] == (name, code), (data, answer)
        assert re.search(text, answer[2]), (data, answer)


def test_a_busy_resolver_is_no_quota(broker: RunningBroker) -> None:
    (resolver,) = broker.children(b"resolver_worker")
    with RawClient(broker.port) as first, RawClient(broker.port) as second:
        first.connect(client_id="first")
        second.connect(client_id="second")
        os.kill(resolver, signal.SIGSTOP)
        try:
            first.send(near("({3},{road/#},T)"))
            first.ping()
            answer = said(answer_to(second, near("({4},{road/#},T)")))
        finally:
            os.kill(resolver, signal.SIGCONT)
    assert answer[:2] == BUSY
    assert answer[2].endswith("of the broker are being resolved, try later")


def test_the_page_lists_exactly_these() -> None:
    lines = re.findall(r"^\| ([A-Z, ]+) \| (0x..) \|", PAGE.read_text(), re.MULTILINE)
    listed = {(name, int(code, 16)) for names, code in lines for name in names.split(", ")}
    assert listed == {(name, code) for _, name, code, _ in rows("7")} | ELSEWHERE | {BUSY}


def test_what_the_world_has_can_be_kept_to_itself(
    city: Path, surroundings: Surroundings, tmp_path: Path
) -> None:
    config = "[broker]\ntell_unknown_entities = false\n"
    arguments = ("--world", str(city), "--allow-anonymous")
    with (
        running_broker(tmp_path, *arguments, config=config) as broker,
        RawClient(broker.port) as client,
    ):
        client.connect()
        for peid in ("1", str(surroundings.inside)):
            assert said(answer_to(client, message("a", peid))) == ("PUBACK", 0x10, "")
