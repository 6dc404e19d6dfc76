"""The client library on a real broker: subscribe, publish, refusals, warnings, giving back."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from queue import Empty, Queue
from typing import Any

import pytest

from schemas.language.notation import notation, read_neighborhood
from spaps import Message, SpatialClient
from spaps.client.errors import (
    AnswerTimeoutError,
    ClientError,
    ClientUseError,
    NeighborhoodRefusedError,
    NotConnectedError,
    PublishRefusedError,
    SubscribeRefusedError,
)
from tests.scenes.surroundings import Surroundings
from tests.servers.running_broker import PATIENCE, RunningBroker, until


class Inbox(Queue[Message]):
    """Messages in the order in which they came."""

    def payloads_until(self, last: bytes) -> list[bytes]:
        """All payloads up to the one that the test has sent last."""
        payloads = [self.get(timeout=PATIENCE).payload]
        while payloads[-1] != last:
            payloads.append(self.get(timeout=PATIENCE).payload)
        return payloads


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def client(open_broker: RunningBroker, inbox: Inbox) -> Iterator[SpatialClient]:
    with SpatialClient("127.0.0.1", open_broker.port, on_message=inbox.put) as client:
        yield client


@pytest.mark.parametrize("form", ["json", "notation", "dict", "schema"])
def test_every_way_to_write_a_neighborhood(
    form: str, client: SpatialClient, inbox: Inbox, surroundings: Surroundings
) -> None:
    schema = read_neighborhood(surroundings.descriptor)
    given = {
        "json": surroundings.descriptor,
        "notation": notation(schema),
        "dict": json.loads(surroundings.descriptor),
        "schema": schema,
    }[form]
    nsid = client.subscribe(f"way/{form}", given, qos=1)
    assert client.nsids == (nsid,)
    assert client.warnings(nsid) == ()
    client.publish(f"way/{form}", "out", peid=surroundings.outside, qos=1).wait()
    client.publish(
        f"way/{form}", "in", peid=surroundings.inside, qos=1, user_properties=[("unit", "°C")]
    ).wait()
    message = inbox.get(timeout=PATIENCE)
    assert message.payload == b"in"
    assert message.nsids == (nsid,)
    assert message.peid == surroundings.inside
    assert message.qos == 1
    assert message.user_properties == (("unit", "°C"), ("peid", str(surroundings.inside)))


def test_two_neighborhoods_one_message_both_nsids(
    client: SpatialClient, inbox: Inbox, surroundings: Surroundings
) -> None:
    client.subscribe("two/+", surroundings.descriptor, nsid=5)
    client.subscribe("two/#", surroundings.descriptor, nsid=6)
    client.publish("two/a", peid=surroundings.inside)
    message = inbox.get(timeout=PATIENCE)
    assert sorted(message.nsids) == [5, 6]


def test_giving_back_one_by_its_nsid(
    client: SpatialClient, inbox: Inbox, surroundings: Surroundings
) -> None:
    kept = client.subscribe("back/a", surroundings.descriptor)
    gone = client.subscribe("back/a", surroundings.descriptor)
    assert kept != gone
    client.unsubscribe(gone)
    assert client.nsids == (kept,)
    client.publish("back/a", peid=surroundings.inside)
    assert inbox.get(timeout=PATIENCE).nsids == (kept,)
    with pytest.raises(ClientUseError, match=f"no neighborhood {gone}"):
        client.unsubscribe(gone)
    client.subscribe_topic("back/last")
    client.unsubscribe_topic("back/a")
    assert client.nsids == ()
    client.publish("back/a", "never", peid=surroundings.inside)
    client.publish("back/last", "last")
    assert inbox.payloads_until(b"last") == [b"last"]


def test_a_plain_subscription_has_no_nsids(client: SpatialClient, inbox: Inbox) -> None:
    client.subscribe_topic("plain/#", qos=2)
    client.publish("plain/x", "about nothing", qos=2).wait()
    message = inbox.get(timeout=PATIENCE)
    assert (message.nsids, message.peid, message.qos) == ((), None, 2)


def test_the_brokers_no_is_an_exception_with_its_words(client: SpatialClient) -> None:
    with pytest.raises(SubscribeRefusedError) as refused:
        client.subscribe("a", "({999999999},{road/#},C)")
    assert refused.value.reason_code >= 0x80
    assert refused.value.reason is not None
    assert "999999999" in refused.value.reason
    assert refused.value.reason in str(refused.value)
    assert isinstance(refused.value, ClientError)
    assert client.nsids == ()


@pytest.mark.parametrize(
    "wrong",
    [
        "({1},{road/#},C AND)",
        {"refs": [1], "stages": [{"cats": ["road/#"], "cond": "C AND"}]},
        '{"refs": [1], "stages": [{"cats": ["road/#"], "cond": "C AND"}]}',
    ],
    ids=["notation", "object", "JSON"],
)
def test_a_neighborhood_that_breaks_a_rule_is_refused_with_the_reason(
    client: SpatialClient, wrong: str | dict[str, Any]
) -> None:
    with pytest.raises(NeighborhoodRefusedError, match="stage 1: at character") as refused:
        client.subscribe("a", wrong)
    assert isinstance(refused.value, SubscribeRefusedError)
    assert refused.value.stage == 1
    assert refused.value.reason is not None
    assert refused.value.reason.startswith("stage 1: ")
    assert client.is_connected
    assert client.nsids == ()


def test_mistakes_are_found_before_anything_is_sent(client: SpatialClient) -> None:
    with pytest.raises(ClientUseError, match="65536 bytes"):
        client.subscribe("a", "x" * 65_536)
    with pytest.raises(ClientUseError, match=r"U\+0000"):
        client.subscribe("a", "({1},{\0},C)")
    with pytest.raises(ClientUseError, match="cannot be written"):
        client.subscribe("a", "\ud800")
    with pytest.raises(ClientUseError, match="object is no JSON"):
        client.subscribe("a", {"refs": object()})
    with pytest.raises(ClientUseError, match="not list"):
        client.subscribe("a", [1])  # type: ignore[arg-type]
    with pytest.raises(ClientUseError, match="QoS"):
        client.publish("a", qos=3)
    with pytest.raises(ClientUseError, match="peid"):
        client.publish("a", peid=2**63)
    with pytest.raises(ClientUseError, match="a/#"):
        client.publish("a/#")
    with pytest.raises(ClientUseError, match="properties"):
        client.publish("a", NoSuchProperty=1)
    with pytest.raises(ClientUseError, match="nsid"):
        client.subscribe("a", "({1},{road/#},C)", nsid=-1)


def test_warnings_of_the_broker(client: SpatialClient, surroundings: Surroundings) -> None:
    hopeless = json.loads(surroundings.descriptor) | {
        "stages": [{"cats": ["#"], "cond": "C AND T"}]
    }
    warning, empty = client.warnings(client.subscribe("a", hopeless))
    assert "C AND B" in warning
    assert "is empty" in empty


def test_a_refused_message(open_broker: RunningBroker) -> None:
    problems: Queue[ClientError] = Queue()
    with SpatialClient("127.0.0.1", open_broker.port, on_problem=problems.put) as client:
        wrong = client.publish("a", qos=1, user_properties=[("peid", "minus one")])
        with pytest.raises(PublishRefusedError) as refused:
            wrong.wait()
        assert refused.value.reason_code >= 0x80
        assert problems.get(timeout=PATIENCE) is refused.value
        client.publish("a", qos=1).wait()


def test_a_refused_message_of_qos_2(client: SpatialClient) -> None:
    with pytest.raises(PublishRefusedError):
        client.publish("a", qos=2, user_properties=[("peid", "minus one")]).wait()
    client.publish("a", qos=2).wait()


def test_callbacks_may_publish_and_are_told_not_to_wait(
    open_broker: RunningBroker, surroundings: Surroundings
) -> None:
    raised: Queue[ClientError] = Queue()
    answers: Queue[bytes] = Queue()

    def reply(message: Message) -> None:
        if message.topic == "ask":
            client.publish("answer", message.payload)
            client.subscribe("more", surroundings.descriptor)
        else:
            answers.put(message.payload)

    with SpatialClient(
        "127.0.0.1", open_broker.port, on_message=reply, on_problem=raised.put
    ) as client:
        for topic in ("ask", "answer"):
            client.subscribe_topic(topic)
        for payload in (b"1", b"2"):
            client.publish("ask", payload)
            assert answers.get(timeout=PATIENCE) == payload
            assert "wait for itself" in str(raised.get(timeout=PATIENCE))


def test_who_waits_no_longer_leaves_nothing_behind(
    client: SpatialClient, inbox: Inbox, surroundings: Surroundings, open_broker: RunningBroker
) -> None:
    # A broker that is stopped cannot answer before the client gives up.
    open_broker.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(AnswerTimeoutError):
            client.subscribe("late", surroundings.descriptor, timeout=0)
    finally:
        open_broker.process.send_signal(signal.SIGCONT)
    client.subscribe_topic("now")  # answered after the late one

    def received() -> list[bytes]:
        client.publish("late", "late", peid=surroundings.inside)
        client.publish("now", "now")
        return inbox.payloads_until(b"now")

    until(lambda: received() == [b"now"], "the late one's end")
    assert client.nsids == ()


def test_without_a_connection(open_broker: RunningBroker) -> None:
    client = SpatialClient("127.0.0.1", open_broker.port)
    with pytest.raises(NotConnectedError):
        client.publish("a")
    with pytest.raises(NotConnectedError):
        client.subscribe_topic("a")
    with pytest.raises(NotConnectedError, match=r"127\.0\.0\.1:1"):
        SpatialClient("127.0.0.1", 1).connect()
    client.close()


def test_many_threads_one_client(
    client: SpatialClient, inbox: Inbox, surroundings: Surroundings
) -> None:
    nsids: list[int] = []

    def work() -> None:
        nsids.append(client.subscribe("threads", surroundings.descriptor))
        client.publish("threads", peid=surroundings.inside, qos=1).wait()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(nsids)) == 8
    assert sorted(client.nsids) == sorted(nsids)
    assert not inbox.empty()
    while True:
        try:
            assert set(inbox.get_nowait().nsids) <= set(nsids)
        except Empty:
            break
