"""The log that an ideal broker would leave behind, to be damaged by tests of the checker."""

from __future__ import annotations

from tests.soak.ground import Ground
from tests.soak.records import PLAIN, PLAIN_NSID, Change, Received, Records, Sent, Sighting

SWITCH_FROM, SWITCH_UNTIL = 50.0, 50.2
BOTH_POSSIBLE = 50.1
REMOVED_AT = 70.0
REPLACED_AT = 80.0
NEVER = float("inf")


def right_log(ground: Ground) -> Records:
    """What an ideal broker would leave behind: version 1 until 50.1, then version 2."""
    records = Records(versions={1: 1, 2: 2})
    records.in_broker = [
        Sighting(1, -NEVER, 0.0, SWITCH_FROM, SWITCH_UNTIL),
        Sighting(2, SWITCH_FROM, SWITCH_UNTIL, 99.0, NEVER),
    ]
    records.changes = [Change("auditor", PLAIN_NSID, "#", PLAIN, 0.0, answered=0.1)]
    held = {"auditor": [(PLAIN_NSID, PLAIN, 0.0, NEVER)]}
    for client in range(4):
        name, numbers = f"client-{client}", (client, client + 4, client + 8)
        held[name] = [(nsid, numbers[nsid], 0.1, NEVER) for nsid in range(3)]
        records.changes += [
            Change(name, nsid, "t/#", numbers[nsid], 0.0, answered=0.1) for nsid in range(3)
        ]
    # One is given back and one is replaced by another neighborhood.
    records.changes += [
        Change("client-2", 1, "t/#", None, REMOVED_AT, answered=REMOVED_AT + 0.1),
        Change("client-1", 0, "t/#", 11, REPLACED_AT, answered=REPLACED_AT + 0.1),
    ]
    held["client-2"][1] = (1, 6, 0.1, REMOVED_AT + 0.05)
    held["client-1"][0] = (0, 1, 0.1, REPLACED_AT + 0.05)
    held["client-1"].append((0, 11, REPLACED_AT + 0.05, NEVER))
    changing = ground.peids[0]
    # Every hundredth second around the switch and the changes, so that there is one for each case.
    times = [1.0 + at / 4 for at in range(390)]
    times += [BOTH_POSSIBLE + at / 1000 - 0.05 for at in range(90)]
    for number, at in enumerate(sorted(times)):
        peid = changing[number * 7 % len(changing)]
        version = 1 if at < BOTH_POSSIBLE else 2
        message = Sent("p", number, "t/x", peid, at, [at], at + 0.01)
        records.sent[message.name] = message
        for client, subscriptions in held.items():
            nsids = tuple(
                nsid
                for nsid, one, start, end in subscriptions
                if start <= at < end and (one == PLAIN or ground.holds(one, version, peid))
            )
            if nsids:
                told = () if client == "auditor" else nsids
                copy = Received(client, 1, at + 0.005, message.name, "t/x", peid, told)
                records.received.append(copy)
    return records
