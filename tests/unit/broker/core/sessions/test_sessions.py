"""Sessions: expiry, take-over, ownership, wills and time."""

from __future__ import annotations

import mqtt5
import pytest

from broker.codec.reason_codes import ReasonCode
from broker.core.counters import Drop
from broker.core.limits import BrokerLimits
from broker.core.verdicts import Action, Identity
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness


def expiry(seconds: int) -> bytes:
    return b"\x11" + seconds.to_bytes(4, "big")


def disconnect(seconds: int | None = None, reason: int = 0) -> bytes:
    properties = b"" if seconds is None else expiry(seconds)
    return encode.packet(0xE0, bytes((reason,)) + encode.section(properties))


def is_present(client: Client) -> bool:
    return bool(client.take()[0].session_present)


def test_a_session_is_there_until_it_expires() -> None:
    harness = Harness()
    client = harness.connect("c", properties=expiry(10))
    client.subscribe("t", 1)
    client.send(encode.DISCONNECT)
    harness.advance(9)
    again = harness.connect("c", flags=0, properties=expiry(10))
    assert is_present(again)
    again.lose()
    harness.advance(10)
    assert len(harness.core.sessions) == 0
    assert harness.core.index.count == 0
    assert harness.core.counters.sessions_expired == 1
    assert not is_present(harness.connect("c", flags=0))


def test_clean_start_wipes() -> None:
    harness = Harness()
    client = harness.connect("c", properties=expiry(10))
    client.subscribe("t", 1)
    client.lose()
    assert not is_present(harness.connect("c", properties=expiry(10)))
    assert harness.core.index.count == 0


def test_disconnect_changes_the_expiry() -> None:
    harness = Harness()
    harness.connect("c", properties=expiry(1)).send(disconnect(5))
    harness.advance(3)
    again = harness.connect("c", flags=0, properties=expiry(1))
    assert is_present(again)
    again.send(disconnect(0))
    assert len(harness.core.sessions) == 0


def test_the_expiry_is_capped_and_sent() -> None:
    harness = Harness(limits=BrokerLimits(session_expiry=100))
    (connack,) = harness.connect("c", properties=expiry(0xFFFF_FFFF)).take()
    assert connack.session_expiry_interval == 100
    (connack,) = harness.connect("d", properties=expiry(99)).take()
    assert connack.session_expiry_interval is None


def test_without_a_cap_a_session_may_last_forever() -> None:
    harness = Harness(limits=BrokerLimits(session_expiry=0xFFFF_FFFF))
    harness.connect("c", properties=expiry(0xFFFF_FFFF)).lose()
    harness.clock.now += 10_000_000
    harness.core.tick()
    assert is_present(harness.connect("c", flags=0))


def test_the_number_of_sessions_is_bounded() -> None:
    harness = Harness(limits=BrokerLimits(sessions=2))
    harness.connect("a", properties=expiry(10)).lose()
    harness.connect("b")
    (refused,) = harness.connect("c").take()
    assert refused.reason_code == mqtt5.ConnAckReasonCode.QUOTA_EXCEEDED
    assert is_present(harness.connect("a", flags=0))


def test_take_over() -> None:
    harness = Harness()
    first = harness.connect("c", properties=expiry(10))
    first.subscribe("t", 1)
    first.take()
    second = harness.connect("c", flags=0, properties=expiry(10))
    assert is_present(second)
    (end,) = first.take()
    assert end.reason_code == mqtt5.DisconnectReasonCode.SESSION_TAKEN_OVER
    assert first.is_closed
    first.lose()
    second.send(encode.publish("t", b"x"))
    assert len(second.messages()) == 1
    assert harness.core.sessions.connected == 1


def login(name: str) -> dict[str, object]:
    return {"flags": 0x80, "rest": encode.text(name)}


def test_another_user_can_neither_take_over_nor_wipe() -> None:
    harness = Harness()
    owner = harness.connect("c", properties=expiry(100), **login("ann"))
    owner.subscribe("t", 1)
    owner.take()
    for flags in (0x80, 0x82):
        assert not is_present(harness.connect("c", flags=flags, rest=encode.text("bob")))
    assert not is_present(harness.connect("c"))
    assert not owner.is_closed
    owner.lose()
    assert not is_present(harness.connect("c", flags=0x82, rest=encode.text("bob")))
    assert is_present(harness.connect("c", **login("ann")))


def with_will(delay: int = 0, qos: int = 0, *, retain: bool = False) -> dict[str, object]:
    properties = b"\x18" + delay.to_bytes(4, "big") if delay else b""
    flags = 0x06 | qos << 3 | retain << 5
    return {"flags": flags, "rest": encode.will("gone", b"bye", properties)}


def watcher(harness: Harness) -> Client:
    client = harness.connect("w", keep_alive=0)
    client.subscribe("gone", 2)
    client.take()
    return client


def test_a_will_is_sent_when_the_connection_breaks() -> None:
    harness = Harness(limits=BrokerLimits(keep_alive=0))
    watch = watcher(harness)
    harness.connect("c", **with_will(qos=1)).lose()
    (message,) = watch.messages()
    assert (message.topic, message.payload, int(message.qos)) == ("gone", b"bye", 1)


def test_no_will_after_a_friendly_goodbye() -> None:
    harness = Harness(limits=BrokerLimits(keep_alive=0))
    watch = watcher(harness)
    harness.connect("c", **with_will()).send(encode.DISCONNECT)
    harness.connect("d", **with_will()).send(disconnect(reason=4))
    assert len(watch.messages()) == 1


@pytest.mark.parametrize(("delay", "lasts", "due"), [(3, 5, 3), (5, 2, 2), (5, 0, 0)])
def test_a_will_waits_for_its_delay_or_the_end_of_its_session(
    delay: int, lasts: int, due: int
) -> None:
    harness = Harness(limits=BrokerLimits(keep_alive=0))
    watch = watcher(harness)
    harness.connect("c", properties=expiry(lasts), **with_will(delay)).lose()
    if due:
        harness.advance(due - 0.5)
        assert watch.messages() == []
        harness.advance(1)
    assert len(watch.messages()) == 1
    harness.advance(20)
    assert watch.messages() == []


def test_coming_back_in_time_calls_a_delayed_will_off() -> None:
    harness = Harness(limits=BrokerLimits(keep_alive=0))
    watch = watcher(harness)
    harness.connect("c", properties=expiry(60), **with_will(10)).lose()
    harness.advance(5)
    harness.connect("c", flags=0, properties=expiry(60))
    harness.advance(30)
    assert watch.messages() == []


def test_a_clean_start_ends_the_session_and_sends_its_will() -> None:
    harness = Harness(limits=BrokerLimits(keep_alive=0))
    watch = watcher(harness)
    harness.connect("c", properties=expiry(60), **with_will(10)).lose()
    harness.connect("c")
    assert len(watch.messages()) == 1


def test_a_retained_will_stays() -> None:
    harness = Harness(limits=BrokerLimits(keep_alive=0))
    harness.connect("c", **with_will(retain=True)).lose()
    assert harness.core.retained.count == 1
    assert len(watcher(harness).packets) == 0
    late = harness.connect("late")
    late.subscribe("gone")
    (message,) = late.messages()
    assert message.retain


def test_the_wills_expiry_begins_when_it_is_sent() -> None:
    harness = Harness(limits=BrokerLimits(keep_alive=0))
    watch = watcher(harness)
    rest = encode.will("gone", b"", b"\x18\x00\x00\x00\x05\x02\x00\x00\x00\x09")
    harness.connect("c", properties=expiry(60), flags=0x06, rest=rest).lose()
    harness.advance(6)
    (message,) = watch.messages()
    assert message.message_expiry_interval == 9


class DenyGone:
    """Nobody may publish to ``gone``, from a moment on."""

    def __init__(self) -> None:
        self.denies = False

    def verdict(self, client: Identity, topic: str, action: Action) -> ReasonCode:
        assert client.client_id
        denied = self.denies and topic == "gone" and action is Action.PUBLISH
        return ReasonCode.NOT_AUTHORIZED if denied else ReasonCode.SUCCESS


def test_a_will_obeys_the_rules_at_connect() -> None:
    access = DenyGone()
    access.denies = True
    client = Harness(access=access).connect("c", **with_will())
    (refused,) = client.take()
    assert refused.reason_code == mqtt5.ConnAckReasonCode.NOT_AUTHORIZED
    assert client.is_closed


def test_a_will_obeys_the_rules_when_it_is_sent() -> None:
    access = DenyGone()
    harness = Harness(access=access, limits=BrokerLimits(keep_alive=0))
    watch = watcher(harness)
    client = harness.connect("c", **with_will())
    access.denies = True
    client.lose()
    assert watch.messages() == []
    assert harness.core.counters.drops[Drop.WILL_NOT_ALLOWED] == 1


def test_keep_alive() -> None:
    harness = Harness()
    client = harness.connect("c", keep_alive=10)
    client.take()
    harness.advance(14)
    client.send(encode.PINGREQ)
    client.take()
    harness.advance(14.9)
    assert not client.is_closed
    harness.advance(0.2)
    (end,) = client.take()
    assert end.reason_code == mqtt5.DisconnectReasonCode.KEEP_ALIVE_TIMEOUT
    assert client.is_closed


def test_without_connect_in_time_the_connection_is_closed() -> None:
    harness = Harness()
    silent, slow, late = harness.open(), harness.open(), harness.open()
    harness.advance(9.99)
    slow.send(encode.connect("c")[:5])
    late.send(encode.connect("late"))
    assert not silent.is_closed
    harness.advance(0.01)
    assert silent.is_closed
    assert slow.is_closed
    assert not late.is_closed
    assert silent.raw == slow.raw == b""


def test_a_closed_connection_leaves_no_timer_behind() -> None:
    harness = Harness()
    before = len(harness.core._state.timers)
    for number in range(1_000):
        harness.connect("c", properties=expiry(100_000), flags=0, keep_alive=number % 60).lose()
    assert len(harness.core._state.timers) < before + 200
