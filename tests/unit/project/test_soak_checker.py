"""Negative controls of the soak's checker: a right log passes, and every damage to it is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.soak.checker import Checker, Verdict
from tests.soak.ground import Ground, make_ground
from tests.soak.records import Change, Event, Received, Reconnect, Records, Sent
from tests.soak.right_log import REMOVED_AT, SWITCH_FROM, SWITCH_UNTIL, right_log


@pytest.fixture(scope="module")
def ground() -> Ground:
    """Two editions in which many memberships differ."""
    return make_ground(entities=600, editions=2, neighborhoods=12, share=0.4)


def judge(ground: Ground, records: Records) -> Verdict:
    return Checker(ground, records).judge()


def one_of(records: Records, fits: Callable[[Received], bool]) -> int:
    """Where the first copy that fits is; that there is none would make a control worthless."""
    return next(at for at, copy in enumerate(records.received) if fits(copy))


def test_the_right_log_is_right(ground: Ground) -> None:
    verdict = judge(ground, right_log(ground))
    assert verdict.findings == []
    assert verdict.messages == 480
    assert verdict.near_switches > 80
    assert verdict.owed == verdict.delivered > 700


def lose_one(records: Records) -> None:
    del records.received[one_of(records, lambda copy: copy.client == "client-2")]


def lose_a_plain_one(records: Records) -> None:
    del records.received[one_of(records, lambda copy: copy.client == "auditor")]


def forget_an_nsid(records: Records) -> None:
    copy = records.received[one_of(records, lambda copy: len(copy.nsids) > 1)]
    copy.nsids = copy.nsids[1:]


def deliver_to_another(records: Records) -> None:
    """A copy for somebody whose neighborhoods do not hold the entity."""
    got = {(copy.name, copy.client) for copy in records.received}
    at = one_of(records, lambda copy: (copy.name, "client-3") not in got)
    records.received.append(replace(records.received[at], client="client-3", nsids=(1,)))


def add_an_nsid(records: Records) -> None:
    records.received[one_of(records, lambda copy: copy.nsids == (1,))].nsids = (1, 2)


def tell_an_nsid_twice(records: Records) -> None:
    records.received[one_of(records, lambda copy: copy.nsids == (1,))].nsids = (1, 1)


def send_again(records: Records, sent: float, received: float) -> None:
    """A message for the subscription that is given back at 70, and for nobody else but one."""
    got = Counter(copy.name for copy in records.received)
    at = one_of(
        records,
        lambda copy: (
            (copy.client, copy.nsids, got[copy.name]) == ("client-2", (1,), 2)
            and copy.at > SWITCH_UNTIL
        ),
    )
    before = records.received[at]
    message = records.sent[before.name]
    again = Sent("q", 0, message.topic, message.peid, sent, [sent], sent + 0.01)
    records.sent[again.name] = again
    for client, nsids in (("auditor", ()), ("client-2", (1,))):
        copy = replace(before, client=client, nsids=nsids, name=again.name, at=received)
        records.received.append(copy)


def resurrect(records: Records) -> None:
    send_again(records, 90.0, 90.005)


def deliver_after_the_end(records: Records) -> None:
    """Sent in time, and read after the UNSUBACK."""
    send_again(records, REMOVED_AT - 0.1, REMOVED_AT + 0.2)


def swap_two(records: Records) -> None:
    first = one_of(records, lambda copy: copy.client == "auditor")
    later = one_of(records, lambda copy: copy.client == "auditor" and copy.at > 3)
    one, other = records.received[first], records.received[later]
    one.at, other.at = other.at, one.at


def repeat_on_the_same_connection(records: Records) -> None:
    records.received.append(replace(records.received[9], at=records.received[9].at + 0.1))


def repeat_without_a_mark(records: Records) -> None:
    copy = records.received[-1]
    records.received.append(replace(copy, at=copy.at + 1, connection=2))


def alter_the_entity(records: Records) -> None:
    records.received[5] = replace(records.received[5], peid=4)


def invent_one(records: Records) -> None:
    records.received.append(replace(records.received[5], name="p:9999"))


def lose_a_session(records: Records) -> None:
    records.reconnects.append(Reconnect("client-1", 20.0, session_present=False))


def fail_a_rebuild(records: Records) -> None:
    records.events.append(Event("rebuild failed", 20.0, 21.0, "exit code 2"))


def refuse_a_subscription(records: Records) -> None:
    records.changes.append(Change("client-3", 9, "t/#", 1, 30.0, answered=30.1, code=0x80))


def refuse_a_message(records: Records) -> None:
    message = records.sent["p:3"]
    message.code = 0x80
    records.received = [copy for copy in records.received if copy.name != message.name]


def never_answer(records: Records) -> None:
    records.sent["p:3"].acknowledged = None


def deliver_what_nobody_should_have(records: Records) -> None:
    records.sent["p:3"].code = 0x10


DAMAGES = {
    lose_one: "lost",
    lose_a_plain_one: "lost",
    forget_an_nsid: "lost",
    deliver_to_another: "wrong",
    add_an_nsid: "wrong",
    tell_an_nsid_twice: "wrong",
    resurrect: "wrong",
    deliver_after_the_end: "late",
    swap_two: "order",
    repeat_on_the_same_connection: "twice",
    repeat_without_a_mark: "unmarked",
    alter_the_entity: "altered",
    invent_one: "unknown",
    lose_a_session: "session lost",
    fail_a_rebuild: "rebuild",
    refuse_a_subscription: "refused",
    refuse_a_message: "refused",
    never_answer: "unanswered",
    deliver_what_nobody_should_have: "wrong",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damage_is_found(ground: Ground, damage: Callable[[Records], None]) -> None:
    records = right_log(ground)
    damage(records)
    assert judge(ground, records).kinds() == {DAMAGES[damage]}


def by_version(ground: Ground, records: Records, version: int, client: str, message: Sent) -> None:
    """Let one client have a message as a version would have it."""
    records.received = [
        copy for copy in records.received if (copy.name, copy.client) != (message.name, client)
    ]
    number = int(client[-1])
    nsids = tuple(
        nsid for nsid in range(3) if ground.holds(number + 4 * nsid, version, message.peid)
    )
    if nsids:
        at = message.sends[0] + 0.005
        copy = Received(client, 1, at, message.name, message.topic, message.peid, nsids)
        records.received.append(copy)


def differing(ground: Ground, peid: int) -> list[str]:
    """The clients for whom the versions differ on an entity."""
    return [
        f"client-{number}"
        for number in range(4)
        if any(
            ground.holds(number + 4 * nsid, 1, peid) != ground.holds(number + 4 * nsid, 2, peid)
            for nsid in range(3)
        )
    ]


def test_a_mix_of_generations_is_found(ground: Ground) -> None:
    """At the switch both are right, and half of each is not."""
    records = right_log(ground)
    message = next(
        one
        for one in records.sent.values()
        if SWITCH_FROM < one.sends[0] < SWITCH_UNTIL and len(differing(ground, one.peid)) > 1
    )
    clients = differing(ground, message.peid)
    for version in (1, 2):
        for client in clients:
            by_version(ground, records, version, client, message)
        assert judge(ground, records).findings == []
    by_version(ground, records, 1, clients[0], message)
    assert judge(ground, records).kinds() == {"mix"}


def test_the_generation_before_is_wrong_after_the_switch(ground: Ground) -> None:
    records = right_log(ground)
    message = next(
        one for one in records.sent.values() if one.sends[0] > 51 and differing(ground, one.peid)
    )
    by_version(ground, records, 1, differing(ground, message.peid)[0], message)
    assert judge(ground, records).kinds() <= {"lost", "wrong"}
    assert len(judge(ground, records).findings) == 1


def test_what_qos_1_allows_is_no_damage(ground: Ground) -> None:
    records = right_log(ground)
    copy = records.received[-1]
    records.received.append(replace(copy, at=copy.at + 1, connection=2, is_repeated=True))
    begun = records.received[one_of(records, lambda copy: copy.nsids == (1,))]
    late = max(REMOVED_AT + 9, begun.at)
    records.received.append(replace(begun, at=late, connection=2, is_repeated=True))
    sent_twice = records.sent[records.received[3].name]
    sent_twice.sends.append(sent_twice.sends[0] + 0.005)
    records.received.append(replace(records.received[3], at=records.received[3].at + 0.01))
    assert judge(ground, records).findings == []


def test_refusals_while_redis_is_away_are_no_damage(ground: Ground) -> None:
    records = right_log(ground)
    refuse_a_message(records)
    refuse_a_subscription(records)
    records.events.append(Event("redis away", 0.0, 40.0))
    verdict = judge(ground, records)
    assert verdict.findings == []
    assert verdict.refused == 1
