"""Clients that nobody here wrote: each subscribes by neighborhood, publishes and reads."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.scenes.surroundings import Surroundings
from tests.servers.paho_client import paho_client, user_properties
from tests.servers.running_broker import PATIENCE, RunningBroker, until

# Subscribes, says so on stdout, prints each message, and publishes what stdin says.
MQTT_JS_CLIENT = """
const mqtt = require('mqtt');
const [url, descriptor] = process.argv.slice(2);
const client = mqtt.connect(url, {protocolVersion: 5, clientId: 'mqtt.js', reconnectPeriod: 0});
client.on('error', error => { console.error(error); process.exit(1); });
client.on('message', (topic, payload, packet) => console.log(JSON.stringify(
  {topic, payload: payload.toString(), properties: packet.properties.userProperties})));
client.on('connect', () => client.subscribe('js/#',
  {qos: 1, properties: {userProperties: {neighborhood: descriptor, nsid: '7'}}},
  (error, granted, packet) => {
    console.log(JSON.stringify({granted: packet.reasonCodes || packet.granted,
                                properties: packet.properties.userProperties}));
    require('readline').createInterface({input: process.stdin}).on('line', line => {
      const {topic, payload, properties} = JSON.parse(line);
      client.publish(topic, payload, {qos: 1, properties: {userProperties: properties}});
    }).on('close', () => client.end());
  }));
"""


def test_paho(open_broker: RunningBroker, surroundings: Surroundings) -> None:
    with paho_client(open_broker.port) as client:
        code, pairs = client.subscribe("paho/#", ("neighborhood", surroundings.descriptor))
        assert code == 1
        ((name, nsid),) = pairs
        assert name == "nsid"
        client.publish("paho/a", "outside", ("peid", str(surroundings.outside)))
        client.publish("paho/a", "no entity", ("unit", "°C"))
        client.publish("paho/b", "inside", ("unit", "°C"), ("peid", str(surroundings.inside)))
        topic, payload, received = client.next()
        assert (topic, payload) == ("paho/b", "inside")
        assert [pair for pair in received if pair[0] != "nsid"] == [
            ("unit", "°C"),
            ("peid", str(surroundings.inside)),
        ]
        assert [pair for pair in received if pair[0] == "nsid"] == [("nsid", nsid)]


def test_refusals_and_warnings_as_paho_sees_them(open_broker: RunningBroker) -> None:
    with paho_client(open_broker.port) as client:
        wrong = json.dumps({"refs": [1], "stages": []})
        client.client.subscribe(
            "a",
            options=SubscribeOptions(qos=1),
            properties=user_properties(PacketTypes.SUBSCRIBE, ("neighborhood", wrong)),
        )
        codes, properties = client.subacks.get(timeout=PATIENCE)
        assert codes == [0x8F]
        assert "stages" in properties.ReasonString


def test_a_condition_that_nothing_satisfies_is_granted_with_a_warning(
    open_broker: RunningBroker, surroundings: Surroundings
) -> None:
    hopeless = json.loads(surroundings.descriptor)
    hopeless["stages"] = [{"cats": ["#"], "cond": "C AND T"}]
    with paho_client(open_broker.port) as client:
        pairs = (("neighborhood", json.dumps(hopeless)), ("nsid", "12"))
        code, properties = client.subscribe("a", *pairs)
        assert code == 1
        assert ("nsid", "12") in properties
        warning, empty = [value for name, value in properties if name == "warning"]
        assert "C AND B" in warning
        assert "is empty" in empty


def test_aiomqtt(open_broker: RunningBroker, surroundings: Surroundings) -> None:
    async def scenario() -> None:
        async with aiomqtt.Client(
            "127.0.0.1", open_broker.port, protocol=aiomqtt.ProtocolVersion.V5
        ) as client:
            asked = user_properties(
                PacketTypes.SUBSCRIBE, ("neighborhood", surroundings.descriptor), ("nsid", "3")
            )
            await client.subscribe("aio/#", qos=2, properties=asked)
            for peid, payload in ((surroundings.outside, "no"), (surroundings.inside, "yes")):
                about = user_properties(PacketTypes.PUBLISH, ("peid", str(peid)))
                await client.publish("aio/x", payload, qos=2, properties=about)
            async with asyncio.timeout(PATIENCE):
                message = await anext(aiter(client.messages))
            assert message.payload == b"yes"
            assert message.qos == 2
            assert ("nsid", "3") in message.properties.UserProperty

    asyncio.run(scenario())


def test_mosquitto_sub_and_pub(
    open_broker: RunningBroker, surroundings: Surroundings, program: Callable[[str], Path]
) -> None:
    where = ["-h", "127.0.0.1", "-p", str(open_broker.port), "-V", "mqttv5"]
    open_broker.wait_until_quiet()
    subscriber = subprocess.Popen(
        [
            program("mosquitto_sub"), *where, "-t", "mosquitto/#", "-q", "1",
            "-D", "SUBSCRIBE", "user-property", "neighborhood", surroundings.descriptor,
            "-D", "SUBSCRIBE", "user-property", "nsid", "99",
            "-C", "1", "-F", "%t|%p|%P", "-W", str(int(PATIENCE)),
        ],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert subscriber.stdout is not None
    with subscriber.stdout as lines:
        until(lambda: open_broker.metric("spaps_neighborhoods") == 1, "the subscription")
        for peid, payload in ((surroundings.outside, "no"), (surroundings.inside, "yes")):
            subprocess.run(
                [program("mosquitto_pub"), *where, "-t", "mosquitto/a/b", "-q", "1",
                 "-m", payload, "-D", "PUBLISH", "user-property", "peid", str(peid)],
                check=True, timeout=PATIENCE,
            )  # fmt: skip
        received = [line.strip() for line in lines]
    assert subscriber.wait(PATIENCE) == 0
    ((topic, payload, properties),) = [line.split("|") for line in received]
    assert (topic, payload) == ("mosquitto/a/b", "yes")
    assert f"peid:{surroundings.inside}" in properties
    assert "nsid:99" in properties


@pytest.mark.parametrize("scheme", ["mqtt", "ws"])
def test_mqtt_js(
    scheme: str,
    open_broker: RunningBroker,
    surroundings: Surroundings,
    mqtt_js: Path,
    program: Callable[[str], Path],
) -> None:
    port = open_broker.ports["web" if scheme == "ws" else "default"]
    (mqtt_js / "client.js").write_text(MQTT_JS_CLIENT)
    client = subprocess.Popen(
        [program("node"), "client.js", f"{scheme}://127.0.0.1:{port}", surroundings.descriptor],
        cwd=mqtt_js, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert client.stdin is not None
    assert client.stdout is not None

    def say(payload: str, properties: dict[str, str]) -> None:
        assert client.stdin is not None
        line = json.dumps({"topic": "js/1", "payload": payload, "properties": properties})
        client.stdin.write(line + "\n")
        client.stdin.flush()

    with client.stdout, client.stdin:
        subscribed = json.loads(client.stdout.readline())
        assert subscribed["granted"] == [1]
        assert subscribed["properties"] == {"nsid": "7"}
        say("outside", {"peid": str(surroundings.outside)})
        say("inside", {"peid": str(surroundings.inside), "unit": "m/s"})
        received = json.loads(client.stdout.readline())
        assert received["topic"] == "js/1"
        assert received["payload"] == "inside"
        assert received["properties"] == {
            "peid": str(surroundings.inside), "unit": "m/s", "nsid": "7",
        }  # fmt: skip
    assert client.wait(PATIENCE) == 0
