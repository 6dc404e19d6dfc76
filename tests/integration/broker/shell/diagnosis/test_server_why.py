"""``spaps why`` and GET /why: for each subscription, whether it gets a message, or why not."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from broker.access.passwords import hash_password
from testing.world_writers import entity_rows
from tests.servers.paho_client import PahoClient, paho_client
from tests.servers.raw_client import RawClient, packet, text
from tests.servers.redis_server import RedisServer
from tests.servers.running_broker import PATIENCE, RunningBroker, running_broker, until
from tests.strategies.drawn_city import EAST, FAR_STREET, ZONE, drawn_city
from world.versions.store import WorldStore

WHY = [sys.executable, "-c", "from spaps.cli.command_line import main; main()", "why"]
N5 = "({1},{road/#},C) • 3(Prev,{road/#},T) • ({2,3,4},{transport/parking},T) visible 00001"
INSIDE, OUTSIDE, MISSING = 32, 31, 999
AN_HOUR = b"\x11\x00\x00\x0e\x10"
RULES = """
topic readwrite open/#
topic write half/#
topic read half/a
user ann
topic readwrite #
"""
CONFIG = """
[broker]
password_file = "{folder}/users"
acl_file = "{folder}/rules"
gateway = ["open/gate/{{peid}}", "open/key/{{key}}"]
[broker.limits]
queued_messages = 1
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("drawn") / "world")
    WorldStore(folder).write_version(entity_rows(drawn_city()), srid=drawn_city().srid)
    return folder


@pytest.fixture(scope="module")
def broker(world: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("why")
    (folder / "rules").write_text(RULES)
    (folder / "users").write_text(f"ann:{hash_password('secret')}\n")
    arguments = ("--world", world, "--allow-anonymous", "--http", "0")
    with running_broker(folder, *arguments, config=CONFIG.format(folder=folder)) as running:
        yield running


@pytest.fixture
def clients(broker: RunningBroker) -> Iterator[ExitStack]:
    """Clients that leave after the test."""
    broker.wait_until_quiet()
    with ExitStack() as stack:
        yield stack


def come(clients: ExitStack, broker: RunningBroker, client_id: str) -> PahoClient:
    return clients.enter_context(paho_client(broker.port, client_id))


def near(client: PahoClient, topic_filter: str, descriptor: str, nsid: int, qos: int = 1) -> None:
    pairs = (("neighborhood", descriptor), ("nsid", str(nsid)))
    assert client.subscribe(topic_filter, *pairs, qos=qos)[0] == qos


def command(world: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WHY, "--world", world, *arguments], capture_output=True, text=True, timeout=PATIENCE,
        check=False, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip


def why(broker: RunningBroker, topic: str, peid: int | None = None, **more: Any) -> dict[str, Any]:
    fields = {"topic": topic} | ({} if peid is None else {"peid": peid}) | more
    answer: dict[str, Any] = json.loads(broker.page(f"/why?{urlencode(fields)}"))
    return answer


def verdicts(answer: dict[str, Any]) -> dict[tuple[str, int | None], str]:
    return {(row["client"], row["nsid"]): row["verdict"] for row in answer["subscriptions"]}


def row_of(answer: dict[str, Any], client: str) -> dict[str, Any]:
    (row,) = [one for one in answer["subscriptions"] if one["client"] == client]
    return dict(row)


def test_inside_outside_hidden_and_unknown(broker: RunningBroker, clients: ExitStack) -> None:
    here, plain = come(clients, broker, "here"), come(clients, broker, "plain")
    near(here, "open/#", N5, 5)
    plain.subscribe("open/+")
    inside = why(broker, "open/a", INSIDE)
    assert verdicts(inside) == {("here", 5): "delivered", ("plain", None): "delivered"}
    assert row_of(inside, "here")["text"] == "delivered (stage 5)"

    outside = row_of(why(broker, "open/a", OUTSIDE), "here")
    assert (outside["verdict"], outside["distance"], outside["nearestStage"]) == ("outside", 3.0, 5)
    assert outside["text"] == "outside, 3 m from the nearest member of stage 5"
    assert [one["distance"] for one in outside["stages"]][4] == 3.0

    hidden = row_of(why(broker, "open/a", EAST), "here")
    assert hidden["verdict"] == "stage not visible"
    assert hidden["text"] == "in stage 2, which is not visible"

    excluded = row_of(why(broker, "open/a", ZONE), "here")
    assert "it is a reference of stage 1, and so excluded there" in excluded["text"]
    assert "no stage selects its categories" in excluded["text"]

    unknown = why(broker, "open/a", MISSING)
    assert verdicts(unknown) == {("here", 5): "unknown entity", ("plain", None): "delivered"}
    assert (unknown["message"]["exists"], unknown["message"]["worldVersion"]) == (False, 1)

    nothing = why(broker, "open/a")
    assert verdicts(nothing) == {("here", 5): "no entity", ("plain", None): "delivered"}
    assert verdicts(why(broker, "other/a", INSIDE)) == {}


def test_it_says_what_is_delivered(broker: RunningBroker, clients: ExitStack) -> None:
    """For every entity of the world, the verdict is what a published message shows."""
    client = come(clients, broker, "receiver")
    near(client, "open/#", "({1},{road/#},C) • 3(Prev,{#},T) visible 0101", 1)
    peids = drawn_city().peids.tolist()
    expected = [
        str(peid) for peid in peids if row_of(why(broker, "open/a", peid), "receiver")["verdict"]
        == "delivered"
    ]  # fmt: skip
    for peid in peids:
        client.publish("open/a", str(peid), ("peid", str(peid)))
    client.subscribe("open/end")
    client.publish("open/end", "end")
    delivered = []
    while (message := client.next())[1] != "end":
        delivered.append(message[1])
    assert sorted(delivered) == sorted(expected)
    assert 0 < len(delivered) < len(peids)


def test_rights_and_refusals(broker: RunningBroker, clients: ExitStack, world: str) -> None:
    client = come(clients, broker, "c")
    assert client.subscribe("half/a")[0] == 1
    near(client, "open/gate/#", N5, 1)
    assert verdicts(why(broker, "half/a")) == {("c", None): "delivered"}
    rules = broker.folder / "rules"
    rules.write_text(RULES.replace("topic read half/a", ""))
    broker.reload()
    try:
        until(
            lambda: verdicts(why(broker, "half/a")) == {("c", None): "no right"},
            "the right that was taken",
        )
    finally:
        rules.write_text(RULES)
        broker.reload()

    gate = why(broker, f"open/gate/{INSIDE}")
    assert gate["message"]["peid"] == str(INSIDE)
    assert verdicts(gate) == {("c", 1): "delivered"}
    # The keys of this world are its peids. The first question starts the process that knows them.
    until(lambda: why(broker, f"open/key/{INSIDE}")["message"]["peid"] is not None, "the key")
    by_key = why(broker, f"open/key/{INSIDE}")
    assert (by_key["message"]["peid"], by_key["message"]["key"]) == (str(INSIDE), None)
    no_key = command(world, "-t", "open/key/none")
    assert "with the key none, which no entity has" in no_key.stdout
    assert "topics under $neighborhood/ are" in why(broker, "$neighborhood/a")["message"]["refused"]
    mismatch = why(broker, f"open/gate/{INSIDE}", OUTSIDE)
    assert verdicts(mismatch) == {("c", 1): "refused"}
    assert "the topic is about entity 32" in mismatch["message"]["refused"]
    assert "broker's own" in why(broker, "$SYS/a")["message"]["refused"]
    assert "wildcard" in why(broker, "a/#")["message"]["refused"]


def test_clients_that_are_away(broker: RunningBroker, clients: ExitStack, world: str) -> None:
    with RawClient(broker.port) as client:
        client.connect(client_id="away", properties=AN_HOUR)
        for number, qos in enumerate((0, 1), start=1):
            topic_filter = text(f"open/{qos}") + bytes([qos])
            client.send(packet(0x82, number.to_bytes(2, "big"), b"\x00", topic_filter))
            client.read_packet()
    publisher = come(clients, broker, "p")
    try:
        assert verdicts(why(broker, "open/0", qos=1)) == {("away", None): "away"}
        assert verdicts(why(broker, "open/1", qos=0)) == {("away", None): "away"}
        assert verdicts(why(broker, "open/1", qos=2)) == {("away", None): "queued"}
        assert row_of(why(broker, "open/1", qos=2), "away")["session"] == "away"
        publisher.publish("open/1", "first")
        assert verdicts(why(broker, "open/1", qos=1)) == {("away", None): "queue full"}
    finally:
        ended = subprocess.run(
            [*WHY[:-1], "sessions", "end", "away", "--world", world],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr


def test_the_command_and_its_pages(broker: RunningBroker, clients: ExitStack, world: str) -> None:
    for number in range(5):
        near(come(clients, broker, f"c{number}"), "$share/g/open/#" if number == 4 else "open/#",
             N5, number)  # fmt: skip
    done = command(world, "-t", "open/a", "--peid", str(OUTSIDE), "--limit", "2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"a message on open/a about entity {OUTSIDE}"
    assert done.stdout.count("outside, 3 m from the nearest member of stage 5") == 2
    assert lines[-1] == "3 more: --offset 2 shows the next ones"
    rest = command(world, "-t", "open/a", "--peid", str(INSIDE), "--offset", "2", "--json")
    message, *rows = map(json.loads, rest.stdout.splitlines())
    assert (message["peid"], message["subscriptions"]) == (str(INSIDE), 5)
    assert len(rows) == 3
    assert {row["verdict"] for row in rows} == {"delivered"}
    shared = command(world, "-t", "open/a", "--peid", str(INSIDE), "--client", "c4")
    assert "one member of group 'g' gets it" in shared.stdout
    assert "c3" not in shared.stdout
    unknown = command(world, "-t", "open/a", "--peid", str(MISSING))
    assert "which world version 1 does not have" in unknown.stdout
    assert "nobody is subscribed" in command(world, "-t", "none").stdout
    assert broker.page("/").split()[2:] == ["/health", "/metrics", "/entities", "/why"]
    refused = command(world, "-t", "open/#").stdout
    assert refused.endswith("is refused: the topic holds a wildcard\n")
    wrong = command(world, "-t", "open/a", "--peid", "one")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "peid must be an integer from 0 to 9223372036854775807" in wrong.stderr


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "give the topic"),
        ("?topic", "not a list of NAME=VALUE"),
        ("?topic=a&peid=-1", "peid must be an integer"),
        ("?topic=a&limit=1001", "limit must be an integer from 1 to 1000"),
        ("?topic=a&topic=b", "'topic' is given more than once"),
        ("?topic=a&colour=red", "unknown parameter 'colour'"),
    ],
)
def test_a_bad_request_is_one_clear_line(broker: RunningBroker, query: str, said: str) -> None:
    code, line = refused(broker, query)
    assert (code, line.count("\n")) == (400, 1)
    assert said in line


def refused(broker: RunningBroker, query: str) -> tuple[int, str]:
    with pytest.raises(HTTPError) as caught:
        broker.page(f"/why{query}")
    return caught.value.code, caught.value.read().decode()


def test_a_resolver_that_does_not_answer_costs_only_the_distances(
    broker: RunningBroker, clients: ExitStack
) -> None:
    near(come(clients, broker, "here"), "open/#", N5, 1)
    (resolver,) = broker.children(b"resolver_worker")
    os.kill(resolver, signal.SIGSTOP)
    try:
        inside, outside = why(broker, "open/a", INSIDE), why(broker, "open/a", OUTSIDE)
        unknown = why(broker, "open/a", MISSING)
    finally:
        os.kill(resolver, signal.SIGCONT)
    assert verdicts(inside) == {("here", 1): "delivered"}
    assert verdicts(outside) == {("here", 1): "outside"}
    assert row_of(outside, "here")["text"].startswith("outside; no distances: ")
    assert verdicts(unknown) == {("here", 1): "unknown entity"}
    assert row_of(why(broker, "open/a", OUTSIDE), "here")["distance"] == 3.0


def test_strangers_never_see_it(world: str, tmp_path: Path) -> None:
    (tmp_path / "users").write_text(f"ann:{hash_password('secret')}\n")
    config = f'[broker]\npassword_file = "{tmp_path}/users"\n'
    arguments = ("--world", world, "--http", "0.0.0.0:0")
    with running_broker(
        tmp_path / "login", *arguments, config=config + 'http_users = ["ann"]\n'
    ) as broker:
        assert refused(broker, "?topic=a")[0] == 401
        url = f"http://127.0.0.1:{broker.ports['http']}/why?topic=a"
        login = base64.b64encode(b"ann:secret").decode()
        with urlopen(Request(url, headers={"Authorization": f"Basic {login}"})) as answer:
            assert json.load(answer)["subscriptions"] == []
    config += "http_from_anywhere = true\n"
    # A proxy may show what is on an address of this machine.
    for name, http in (("open", "0.0.0.0:0"), ("proxied", "127.0.0.1:0")):
        with running_broker(
            tmp_path / name, "--world", world, "--http", http, config=config
        ) as broker:
            code, line = refused(broker, "?topic=a")
            assert (code, "needs a login" in line) == (403, True)


def test_memberships_that_are_in_redis(
    world: str, tmp_path: Path, redis_server: RedisServer
) -> None:
    arguments = ("--world", world, "--allow-anonymous", "--http", "0")
    where = ("--redis", redis_server.url, "--memberships", "redis")
    with running_broker(tmp_path, *arguments, *where) as broker, paho_client(broker.port) as client:
        near(client, "a", N5, 1)
        for peid, verdict in (
            (INSIDE, "delivered"), (FAR_STREET, "outside"), (MISSING, "unknown entity")
        ):  # fmt: skip
            (row,) = why(broker, "a", peid)["subscriptions"]
            assert row["verdict"] == verdict
