"""Clients of MQTT 3.1.1 and 3.1 at a running broker: libraries with their defaults, raw packets."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from spatial_udfs.entity_keys import peids_of_keys
from tests.broker_core import mqtt3
from tests.scenes.surroundings import Surroundings
from tests.servers.certificates import Certificates
from tests.servers.paho_client import paho_client
from tests.servers.raw_client import RawClient
from tests.servers.redis_server import RedisServer
from tests.servers.running_broker import PATIENCE, PROGRAM, RunningBroker, running_broker, until
from world.snapshot import load_attributes

GATEWAY = """
[broker]
gateway = ["sensor/{peid}/temperature", "lot/{key}/free"]
"""
SQUARE = [[7.40, 43.70], [7.41, 43.70], [7.41, 43.71], [7.40, 43.71], [7.40, 43.70]]


# Subscribes with the library's defaults, publishes to itself, and prints what comes.
MQTT_JS_CLIENT = """
const client = require('mqtt').connect(process.argv[2], {reconnectPeriod: 0});
client.on('error', error => { console.error(error); process.exit(1); });
client.on('message', (topic, payload, packet) => {
  console.log(JSON.stringify([topic, payload.toString(), 'properties' in packet]));
  client.end();
});
client.on('connect', () => client.subscribe('js3/#', () => client.publish('js3/a', 'hello')));
"""


class Client3:
    """Paho with its defaults, but for the version; messages come as (topic, payload, retain)."""

    def __init__(self, version: Any = paho.MQTTv311, **options: Any) -> None:
        self.client = paho.Client(CallbackAPIVersion.VERSION2, protocol=version, **options)
        self.messages: Queue[tuple[str, bytes, bool]] = Queue()
        self.granted: Queue[Any] = Queue()
        self.answers: Queue[Any] = Queue()
        self.client.on_message = lambda _c, _d, one: self.messages.put(
            (one.topic, one.payload, one.retain)
        )
        self.client.on_subscribe = lambda _c, _d, _mid, codes, _p: self.granted.put(codes)
        self.client.on_connect = lambda _c, _d, flags, code, _p: self.answers.put(
            (code.value, flags.session_present)
        )

    def connect(self, port: int) -> tuple[int, bool]:
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        code, is_present = self.answers.get(timeout=PATIENCE)
        return code, is_present

    def subscribe(self, topic_filter: str, qos: int = 0) -> list[int]:
        self.client.subscribe(topic_filter, qos)
        return [code.value for code in self.granted.get(timeout=PATIENCE)]

    def publish(self, topic: str, payload: str, qos: int = 1) -> None:
        self.client.publish(topic, payload, qos).wait_for_publish(PATIENCE)

    def next(self) -> tuple[str, bytes, bool]:
        return self.messages.get(timeout=PATIENCE)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@contextmanager
def old_client(port: int, version: Any = paho.MQTTv311, **options: Any) -> Iterator[Client3]:
    client = Client3(version, **options)
    assert client.connect(port)[0] == 0
    try:
        yield client
    finally:
        client.close()


@pytest.mark.parametrize("version", [paho.MQTTv31, paho.MQTTv311])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_paho_with_its_defaults(open_broker: RunningBroker, version: Any, qos: int) -> None:
    topic = f"old/{int(version)}/{qos}"
    with (
        old_client(open_broker.port, version) as client,
        paho_client(open_broker.port) as new,
    ):
        assert client.subscribe("old/#", qos) == [qos]
        new.publish(topic, "new", ("unit", "°C"))
        assert client.next() == (topic, b"new", False)
        client.publish(topic, "old", qos)
        assert client.next() == (topic, b"old", False)
        assert new.subscribe(f"{topic}/back")[0] == 1
        client.publish(f"{topic}/back", "to the new one", qos)
        assert new.next()[:2] == (f"{topic}/back", "to the new one")


@pytest.mark.parametrize("version", ["mqttv31", "mqttv311", None])
def test_mosquitto_sub_and_pub_with_their_defaults(
    open_broker: RunningBroker, program: Callable[[str], Path], version: str | None
) -> None:
    where = ["-h", "127.0.0.1", "-p", str(open_broker.port)]
    where += [] if version is None else ["-V", version]
    open_broker.wait_until_quiet()
    subscriber = subprocess.Popen(
        [program("mosquitto_sub"), *where, "-t", "m/#", "-C", "1", "-v", "-W", str(int(PATIENCE))],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert subscriber.stdout is not None
    with subscriber.stdout as lines:
        until(lambda: open_broker.metric("spaps_subscriptions") == 1, "the subscription")
        command = [program("mosquitto_pub"), *where, "-t", "m/a", "-m", "hello"]
        subprocess.run(command, check=True, timeout=PATIENCE)
        assert lines.read() == "m/a hello\n"
    assert subscriber.wait(PATIENCE) == 0


@pytest.mark.parametrize("scheme", ["mqtt", "ws"])
def test_mqtt_js_with_its_defaults(
    scheme: str, open_broker: RunningBroker, mqtt_js: Path, program: Callable[[str], Path]
) -> None:
    port = open_broker.ports["web" if scheme == "ws" else "default"]
    (mqtt_js / "defaults.js").write_text(MQTT_JS_CLIENT)
    done = subprocess.run(
        [program("node"), "defaults.js", f"{scheme}://127.0.0.1:{port}"],
        cwd=mqtt_js, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["js3/a", "hello", False]
    assert "protocol='MQTT 3.1.1'" in open_broker.log


def test_a_device_publishes_and_a_neighborhood_hears_it(
    city: Path, surroundings: Surroundings, tmp_path: Path
) -> None:
    arguments = ("--world", str(city), "--allow-anonymous")
    with (
        running_broker(tmp_path, *arguments, config=GATEWAY) as broker,
        paho_client(broker.port) as near,
        old_client(broker.port) as device,
    ):
        near.subscribe("sensor/#", ("neighborhood", surroundings.descriptor), ("nsid", "3"))
        device.publish(f"sensor/{surroundings.outside}/temperature", "outside")
        device.publish(f"sensor/{surroundings.inside}/temperature", "21.5")
        topic, payload, properties = near.next()
        assert (topic, payload) == (f"sensor/{surroundings.inside}/temperature", "21.5")
        assert sorted(properties) == [("nsid", "3"), ("peid", str(surroundings.inside))]
        # The entities of this city have their peids for keys.
        near.subscribe("lot/#", ("neighborhood", surroundings.descriptor), ("nsid", "4"))
        device.publish(f"lot/{surroundings.outside}/free", "0")
        device.publish(f"lot/{surroundings.inside}/free", "7")
        assert near.next()[1] == "7"


def spaps(*arguments: str) -> None:
    command = [*PROGRAM[:-1], *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def write_places(file: Path, *added: str) -> None:
    """Two lots with the keys that their owner gives them, and a zone; ``added`` are in it too."""
    lots = {"P/12": [7.405, 43.705], "P/13": [7.5, 43.8]}
    lots |= {key: [7.406 + number / 1000, 43.704] for number, key in enumerate(added)}
    features = [
        {"type": "Feature", "id": key, "properties": {"categories": ["lot"]},
         "geometry": {"type": "Point", "coordinates": place}}
        for key, place in lots.items()
    ]  # fmt: skip
    zone = {"type": "Polygon", "coordinates": [SQUARE]}
    properties = {"categories": ["zone"]}
    features.append({"type": "Feature", "id": "zone 1", "properties": properties, "geometry": zone})
    file.write_text(json.dumps({"type": "FeatureCollection", "features": features}))


def test_keys_of_ones_own_data_follow_a_switch_of_the_world(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    source, world = tmp_path / "places.geojson", str(tmp_path / "world")
    write_places(source)
    spaps("import", str(source), "--world", world)
    peids = peids_of_keys(load_attributes(world), ["zone 1", "P/12"])
    zone, lot = peids["zone 1"], peids["P/12"]
    arguments = ("--world", world, "--allow-anonymous", "--redis", redis_server.url,
                 "--http", "127.0.0.1:0")  # fmt: skip
    with (
        running_broker(tmp_path, *arguments, config=GATEWAY) as broker,
        paho_client(broker.port) as near,
        paho_client(broker.port) as plain,
        old_client(broker.port) as device,
    ):
        near.subscribe("lot/#", ("neighborhood", f"({{{zone}}},{{lot}},C)"), ("nsid", "1"))
        plain.subscribe("lot/+/free")
        for key in ("P%2F13", "P%2F14", "P%2F12"):
            device.publish(f"lot/{key}/free", key)
        topic, payload, properties = near.next()
        assert (topic, payload) == ("lot/P%2F12/free", "P%2F12")
        assert sorted(properties) == [("nsid", "1"), ("peid", str(lot))]
        named = [plain.next() for _ in range(3)]
        assert [bool(pairs) for _, _, pairs in named] == [True, False, True]
        # The next version has the key that none had.
        write_places(source, "P/14")
        settings = tmp_path / "rebuild.toml"
        settings.write_text(f'[rebuild]\nout = "{tmp_path}/lake"\nrecords = "{tmp_path}/records"\n')
        spaps("rebuild", str(source), "--world", world, "--redis", redis_server.url,
              "--engine", "exact", "--config", str(settings))  # fmt: skip
        until(lambda: broker.health()["world_version"] == 2, "the switch")
        device.publish("lot/P%2F14/free", "new")
        device.publish("lot/P%2F12/free", "again")
        new = peids_of_keys(load_attributes(world), ["P/14"])["P/14"]
        topic, payload, properties = near.next()
        assert (payload, ("peid", str(new)) in properties) == ("new", True)
        assert near.next()[1] == "again"


def test_a_session_survives_a_restart(redis_server: RedisServer, tmp_path: Path) -> None:
    arguments = ("--memberships", "none", "--allow-anonymous", "--redis", redis_server.url)
    with running_broker(tmp_path, *arguments) as broker:
        with old_client(broker.port, client_id="dev", clean_session=False) as client:
            assert client.subscribe("cmd/#", 1) == [1]
        with paho_client(broker.port) as new:
            new.publish("cmd/a", "while away", ("a", "b"), qos=1)
    with running_broker(tmp_path, *arguments) as broker:
        client = Client3(client_id="dev", clean_session=False)
        assert client.connect(broker.port) == (0, True)
        assert client.next() == ("cmd/a", b"while away", False)
        client.close()


@pytest.mark.parametrize("listener", ["web", "secure"])
def test_websocket_and_tls(listener: str, certificates: Certificates, tmp_path: Path) -> None:
    config = f"""
    [broker.listeners.web]
    type = "ws"
    bind = "127.0.0.1:0"
    [broker.listeners.secure]
    type = "tcp"
    bind = "127.0.0.1:0"
    ssl = true
    certfile = "{certificates.server}"
    keyfile = "{certificates.server_key}"
    """
    arguments = ("--memberships", "none", "--allow-anonymous")
    with running_broker(tmp_path, *arguments, config=config) as broker:
        client = Client3(transport="websockets" if listener == "web" else "tcp")
        if listener == "secure":
            client.client.tls_set(str(certificates.authority))
        assert client.connect(broker.ports[listener]) == (0, False)
        assert client.subscribe("a", 1) == [1]
        client.publish("a", "x")
        assert client.next() == ("a", b"x", False)
        client.close()


def test_the_websocket_subprotocol_of_mqtt_3_1(open_broker: RunningBroker) -> None:
    uri = f"ws://127.0.0.1:{open_broker.ports['web']}/mqtt"
    subprotocols = [Subprotocol("mqttv3.1")]
    with connect(uri, subprotocols=subprotocols, open_timeout=PATIENCE) as socket:
        assert socket.subprotocol == "mqttv3.1"
        socket.send(mqtt3.connect("web", level=3))
        assert socket.recv(timeout=PATIENCE) == b"\x20\x02\x00\x00"


def test_the_log_names_the_version(open_broker: RunningBroker) -> None:
    with RawClient(open_broker.port) as raw:
        raw.send(mqtt3.connect("by-hand", level=3))
        assert raw.read_packet() == (0x20, b"\x00\x00")
        open_broker.wait_for_log("MQTT 3.1")
