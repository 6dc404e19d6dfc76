"""Who is notified of a switch: each client its own neighborhoods, by its own subscription."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.codec.reason_codes import ReasonCode
from broker.core.verdicts import Action, Identity
from broker.core.world_changes import (
    CHANGES_IN_MESSAGE,
    SESSIONS_AT_ONCE,
    MemberChange,
    WorldSwitch,
)
from schemas.mqtt_names import (
    CHANGES_TOPIC,
    WORLD_TOPIC,
    WorldNotice,
)
from spaps.client.errors import NoticeError
from spaps.client.message import changes_from_json
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

WORLD = WorldNotice(
    version=8, generation=3, pairs=20, entities=10, neighborhoods=2, without_references=1
)


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.neighborhoods = {"a": [1], "b": [2]}
    return harness


def tell(harness: Harness, changes: dict[int, MemberChange]) -> None:
    harness.core.world_notifier.notify(WorldSwitch(WORLD, changes))
    harness.settle()


def heard(client: Client) -> list[dict[str, Any]]:
    found = [one for one in client.messages() if one.topic == CHANGES_TOPIC]
    return [json.loads(one.payload) for one in found]


def test_everybody_learns_the_state_and_each_its_own_changes(harness: Harness) -> None:
    one, other, nosy = (harness.connect(name) for name in ("one", "other", "nosy"))
    for client, descriptor in ((one, "a"), (one, "b"), (other, "a")):
        client.subscribe_near("t", descriptor)
    one.subscribe(CHANGES_TOPIC, 1)
    other.subscribe("$SYS/#", 1)
    nosy.subscribe("$SYS/#", 1)
    nosy.subscribe(f"$share/g/{CHANGES_TOPIC}", 1)
    nosy.subscribe("#", 1)
    vanished = MemberChange(0, 1, lacks_references=True)
    changes = {1: MemberChange(12, 3), 2: vanished, 3: MemberChange(None, None)}
    tell(harness, changes)
    assert heard(one) == [
        {
            "version": 8,
            "generation": 3,
            "changes": [
                {"nsid": 1, "gained": 12, "lost": 3, "references": "present"},
                {"nsid": 2, "gained": 0, "lost": 1, "references": "none left"},
            ],
        }
    ]
    assert [one_change["nsid"] for one_change in heard(other)[0]["changes"]] == [1]
    received = nosy.messages()
    assert [message.topic for message in received] == [WORLD_TOPIC]
    assert json.loads(received[0].payload)["withoutReferences"] == 1


def test_the_state_is_retained(harness: Harness) -> None:
    tell(harness, {})
    late = harness.connect("late")
    late.subscribe(WORLD_TOPIC)
    [message] = late.messages()
    assert json.loads(message.payload) == json.loads(WORLD.to_json())
    assert not [record for record in harness.records if "Retained" in type(record).__name__]


def test_a_session_that_is_away_finds_it_in_its_queue(harness: Harness) -> None:
    client = harness.connect("c", properties=b"\x11" + (600).to_bytes(4, "big"))
    client.subscribe_near("t", "a")
    client.subscribe(CHANGES_TOPIC, 1)
    client.lose()
    tell(harness, {1: MemberChange(1, 0)})
    again = harness.connect("c", flags=0)
    assert heard(again)[0]["changes"][0]["gained"] == 1


def test_rights_are_asked_as_for_any_message() -> None:
    class NoChanges:
        def verdict(self, client: Identity, topic: str, action: Action) -> ReasonCode:
            denied = action is Action.RECEIVE and topic == CHANGES_TOPIC and client.client_id == "c"
            return ReasonCode.NOT_AUTHORIZED if denied else ReasonCode.SUCCESS

    harness = Harness(access=NoChanges())
    harness.neighborhoods = {"a": [1]}
    client, other = harness.connect("c"), harness.connect("d")
    for one in (client, other):
        one.subscribe_near("t", "a")
        one.subscribe("$SYS/#", 1)
    tell(harness, {1: MemberChange(1, 0), 2: MemberChange(1, 0)})
    assert heard(client) == []
    assert len(heard(other)) == 1


def test_nobody_can_pretend_to_be_the_broker(harness: Harness) -> None:
    client = harness.connect("c")
    client.subscribe(CHANGES_TOPIC, 1)
    answers = client.send(encode.publish(CHANGES_TOPIC, b"{}", qos=1, packet_id=1))
    assert [int(one.reason_code) for one in answers] == [ReasonCode.NOT_AUTHORIZED]


def test_many_are_notified_in_turns_and_in_order(harness: Harness) -> None:
    clients = [harness.connect(f"c{number}") for number in range(2 * SESSIONS_AT_ONCE + 1)]
    for client in clients:
        client.subscribe_near("t", "a")
        client.subscribe(CHANGES_TOPIC, 1)
    changes = {number: MemberChange(number, 0) for number in range(1, len(clients) + 1)}
    harness.core.world_notifier.notify(WorldSwitch(WORLD, changes))
    harness.core.world_notifier.notify(
        WorldSwitch(WORLD, {number: MemberChange(0, 7) for number in changes})
    )
    harness.settle()
    counts = [len(heard(client)) for client in clients]
    assert sum(counts) == SESSIONS_AT_ONCE, "others come between"
    assert not harness.core.world_notifier.is_done
    while not harness.core.world_notifier.is_done:
        harness.core.tick()
        harness.settle()
    rest = [heard(client) for client in clients]
    assert sum(counts) + sum(map(len, rest)) == 2 * len(clients)
    assert all(one[-1]["changes"][0]["lost"] == 7 for one in rest)


def test_a_client_with_very_many_gets_several_messages(harness: Harness) -> None:
    client = harness.connect("c")
    for _ in range(CHANGES_IN_MESSAGE + 1):
        client.subscribe_near("t", "a")
    client.subscribe(CHANGES_TOPIC, 1)
    client.take()
    tell(harness, {number: MemberChange(1, 1) for number in range(1, CHANGES_IN_MESSAGE + 2)})
    assert [len(message["changes"]) for message in heard(client)] == [CHANGES_IN_MESSAGE, 1]


def test_a_notice_that_is_none_is_an_error_in_words() -> None:
    for payload in (b"", b"[]", b'{"version": 1, "generation": 1, "changes": [{}]}'):
        with pytest.raises(NoticeError, match="is not understood"):
            changes_from_json(payload)
