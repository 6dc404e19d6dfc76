"""What a client is refused stands in the log, with who it is and why, at most once a second."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from broker.core.verdicts import Action
from tests.broker_core import encode
from tests.broker_core.access_rules import Rules
from tests.broker_core.harness import Harness


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def denying(action: Action, topic: str) -> Rules:
    """Rules that deny one topic."""
    rules = Rules()
    rules.denied.add((action, topic))
    return rules


def refusals(log: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    """Message and fields of the lines about refusals."""
    wanted = ("client", "user", "from", "topic", "filter", "nsid", "refusals_left_out")
    return [
        (line.getMessage(), {key: vars(line)[key] for key in wanted if key in vars(line)})
        for line in log.records
        if " refused: " in line.getMessage()
    ]


def test_a_denied_publish(log: pytest.LogCaptureFixture) -> None:
    harness = Harness(access=denying(Action.PUBLISH, "secret"))
    client = harness.connect("c")
    client.connection.address = "192.0.2.7:5000"
    for _ in range(5):
        client.send(encode.publish("secret", b"x"))
    client.send(encode.publish("open", b"x"))
    who = {"client": "c", "user": None, "from": "192.0.2.7:5000"}
    denied = "publish refused: not_authorized, no right to publish to secret"
    assert refusals(log) == [(denied, who | {"topic": "secret"})]
    harness.advance(1.5)
    client.send(encode.publish("secret", b"x", qos=1, packet_id=1))
    assert refusals(log)[1:] == [(denied, who | {"topic": "secret", "refusals_left_out": 4})]
    client.send(encode.publish("secret", b"x"))
    client.lose()
    assert log.records[-1].getMessage().startswith("client disconnected")
    assert vars(log.records[-1])["refusals_left_out"] == 1


def test_a_publish_with_a_wrong_peid_says_what_is_wrong(log: pytest.LogCaptureFixture) -> None:
    client = Harness().connect("c")
    client.send(encode.publish("t", b"x", properties=encode.user("peid", "minus one")))
    ((message, fields),) = refusals(log)
    assert message.startswith("publish refused: implementation_specific_error, peid ")
    assert fields["topic"] == "t"


def test_a_refused_neighborhood(log: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    harness.neighborhoods = {"near": [1], "bad": "stage 1: no"}
    client = harness.connect("c")
    client.subscribe_near("a/#", "near", nsid=3)
    assert refusals(log) == []
    client.subscribe_near("a/#", "bad", nsid=4)
    ((message, fields),) = refusals(log)
    assert message == "neighborhood refused: implementation_specific_error, stage 1: no"
    assert fields == {"client": "c", "user": None, "from": None, "filter": "a/#", "nsid": 4}
    assert vars(log.records[-1])["neighborhood"] == "bad"


def test_a_refused_subscription(log: pytest.LogCaptureFixture) -> None:
    harness = Harness(access=denying(Action.SUBSCRIBE, "secret"))
    client = harness.connect("c")
    client.send(encode.subscribe(("open", 0), ("secret", 0), ("a+/b", 0)))
    ((message, fields),) = refusals(log)
    assert message.startswith("subscription refused: not_authorized")
    assert fields["filter"] == "secret"
    assert vars(log.records[-1])["filters_refused"] == 2


def test_a_refused_will(log: pytest.LogCaptureFixture) -> None:
    rules = Rules()
    client = Harness(access=rules).connect("c", flags=0x06, rest=encode.will("will", b"gone"))
    rules.denied.add((Action.PUBLISH, "will"))
    client.lose()
    ((message, fields),) = refusals(log)
    assert message == "will refused: not_authorized"
    assert (fields["client"], fields["topic"]) == ("c", "will")
