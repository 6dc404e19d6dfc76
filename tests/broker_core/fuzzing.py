"""Mutated input for a whole core, by the hundred thousand: a seed gives the same run every time.

An input is what one client sends on one connection: mostly a good CONNECT, then packets of the
table and neighborhoods in both languages, with bytes and fields changed, cut into pieces. The
core lives on over many inputs, so what one client leaves behind meets the next. A change is
made to the bytes alone, or to a body whose length is then put right, so that it gets past
the framing. Whatever is raised goes up to the caller: nothing may be.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from broker.codec.gateway_rules import GatewayRules
from broker.codec.reason_codes import ReasonCode
from broker.core import requests as asked
from broker.core.broker_core import Core
from broker.core.limits import BrokerLimits
from broker.filter.memberships_memory import MemoryMemberships
from schemas.errors import SpapsError
from schemas.language.neighborhood import neighborhood_hash
from schemas.language.notation import read_neighborhood
from tests.broker_core import encode, mqtt3
from tests.broker_core.packet_table import AT_WORK, FIRST
from tests.broker_core.packet_table_3 import AT_WORK_3, FIRST_3

# Inputs that one core lives through.
INPUTS_OF_A_CORE = 2_000
LIMITS = BrokerLimits(
    packet_bytes=4_096, receive_maximum=4, in_flight=3, queued_messages=5, queued_bytes=2_000,
    sessions=20, subscriptions=8, neighborhoods=4, waiting_subscribes=3, topic_levels=6,
    topic_aliases_in=3, topic_aliases_out=2, retained_messages=10, retained_bytes=2_000,
    cached_routes=16,
)  # fmt: skip

NEIGHBORHOODS = [
    '{"refs":[4711],"stages":[{"cats":["road/#"],"cond":"C"}]}',
    (
        '{"name":"n","refs":[1,"2"],"stages":[{"cats":["a","+/b"],"cond":"C AND B"},'
        '{"refStages":"Prev","cats":["#"],"cond":"NOT DW1.5","repeat":3}],'
        '"visible":[true,false,true,true]}'
    ),
    (
        '{"refs":[9],"stages":[{"cats":["a"],"cond":"T"},{"refStages":[1],"cats":["b"],'
        '"cond":"Relate(T*F**F***) OR (¬I ∧ D)"}]}'
    ),
    "({4711},{road/#},C) • 3(Prev,{road/#},T) • ({2,3,4},{transport/parking},T) visible 00001",
    "({1,2},{a;b},E | X & !O);(Anc,{+/c},WD12.25)",
]
PIECES = ['"', "{", "}", "[", "]", ",", ":", "•", ";", "(", ")", "1e9", "-1", "null", "true", "NaN",
          "9" * 20, "\\u0000", "\\ud800", "AND", "NOT", "DW", "Relate(", "#", "+", "/", "visible",
          "repeat", "999999999", "0", "\ufeff", " ", "((((((((", "[[[[[[[["]  # fmt: skip
TOPICS = ["a/b", "t", "at/2", "at/x", "key/a", "key/x"]
NUMBERS = [0, 1, 2, 0x7F, 0x80, 0xFF]


@dataclass
class FuzzCounts:
    """What the inputs led to: a run in which all were refused at once would prove little."""

    inputs: int = 0
    bytes: int = 0
    closed: int = 0
    alive: int = 0
    resolved: int = 0
    refused: int = 0


class Fuzzer:
    """``run`` feeds inputs; two with one seed do the same."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.counts = FuzzCounts()
        self.last = b""
        self._now = 1_700_000_000.0
        self._sub_ids = 0
        self._first = [case.data for case in FIRST] + [case.data for case in FIRST_3]
        short = [case for case in AT_WORK if len(case.data) < 400]
        short_3 = [case for case in AT_WORK_3 if len(case.data) < 400]
        self._packets = [case.data for case in (*short, *short_3)]
        self._legal = [case.data for case in short if case.reason is None]
        self._legal_3 = [case.data for case in short_3 if not case.closes]
        self._core = self._new_core()

    def run(self, inputs: int) -> None:
        """Feed so many inputs."""
        for _ in range(inputs):
            if self.counts.inputs % INPUTS_OF_A_CORE == 0:
                self._core = self._new_core()
            self.counts.inputs += 1
            self._one()

    def _new_core(self) -> Core:
        return Core(
            clock=lambda: self._now,
            limits=LIMITS,
            memberships=MemoryMemberships(),
            gateway=GatewayRules(["at/{peid}", "key/{key}"]),
            durable=True,
            sys_interval=0,
        )

    def _one(self) -> None:
        data = self.make_input()
        self.last = data
        self.counts.bytes += len(data)
        core = self._core
        connection = core.open()
        for piece in self._cut(data):
            core.receive(connection, piece)
            self._settle()
        if self.random.random() < 0.1:
            self._now += self.random.choice([0.001, 1.0, 61.0, 100_000.0])
            core.tick()
            self._settle()
        if connection.is_closed:
            self.counts.closed += 1
        else:
            self.counts.alive += 1
        core.connection_lost(connection)
        self._settle()

    def _settle(self) -> None:
        """What a shell does after each call; a core that never comes to rest fails."""
        core, outbox = self._core, self._core.outbox
        for _ in range(10_000):
            core.journal.flush()
            position, _records = core.journal.take()
            if position > core.journal.committed:
                core.committed(position)
            if not (outbox.requests or outbox.writes):
                break
            requests, outbox.requests[:] = list(outbox.requests), []
            for request in requests:
                self._answer(request)
            writes, outbox.writes[:] = list(outbox.writes), []
            for connection in writes:
                core.output_of(connection)
        else:
            raise AssertionError("the core does not come to rest")
        outbox.closing.clear()
        outbox.unblocked.clear()

    def _answer(self, request: asked.Request) -> None:
        match request:
            case asked.Authenticate():
                request.answer(ReasonCode.SUCCESS, request.user_name, None)
            case asked.Judge():
                request.answer(ReasonCode.SUCCESS)
            case asked.Resolve():
                self._resolve(request)
            case asked.LookUp():
                request.answer(dict.fromkeys(request.peids, ()), None)
            case asked.FindKeys():
                request.answer({key: 7 for key in request.keys if key < "m"}, None)

    def _resolve(self, request: asked.Resolve) -> None:
        """Read the text as the resolver process does; members are made up."""
        try:
            neighborhood_hash(read_neighborhood(request.descriptor))
        except SpapsError as error:
            self.counts.refused += 1
            reason = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
            request.answer(asked.ResolutionRefusal(reason, str(error)))
            return
        self.counts.resolved += 1
        first = self._sub_ids + 1
        self._sub_ids += len(request.filters)
        peids = np.array([1, 2, 4711], np.int64)
        request.answer(asked.Resolution(tuple(range(first, self._sub_ids + 1)), peids))

    # --- making input

    def make_input(self) -> bytes:
        """What one client sends."""
        draw = self.random
        start = encode.connect(draw.choice("abc"), flags=draw.choice([0, 2]))
        make = self._packet
        if draw.random() < 0.25:
            start = mqtt3.connect(
                draw.choice("abc"), level=draw.choice([3, 4]), flags=draw.choice([0, 2])
            )
            make = self._packet_3
        if draw.random() < 0.3:
            start = self._changed(draw.choice(self._first))
        data = b"".join([start, *(make() for _ in range(draw.randint(1, 4)))])
        return self._bytes_changed(data) if draw.random() < 0.1 else data

    def _packet(self) -> bytes:
        draw, kind = self.random, self.random.random()
        if kind < 0.2:
            properties = encode.user("neighborhood", self._neighborhood())
            if draw.random() < 0.5:
                properties += encode.user("nsid", draw.choice(["1", "2", "0", "-1", "x", "9" * 12]))
            name = draw.choice(["a/b", "#", "+/b", "$share/g/a/#", "t"])
            found = encode.subscribe((name, draw.choice([0, 1, 2])), properties=properties)
            return found if draw.random() < 0.7 else self._changed(found)
        if kind < 0.3:
            peid = draw.choice(["1", "4711", "0", "", "-1", "٣", "9" * 19, str(2**63 - 1)])
            qos = draw.choice([0, 0, 1, 2])
            return encode.publish(
                draw.choice(TOPICS), b"x" * draw.choice([0, 1, 130]),
                properties=encode.user("peid", peid), qos=qos,
                packet_id=draw.randint(1, 5) if qos else None,
            )  # fmt: skip
        found = draw.choice(self._legal if draw.random() < 0.9 else self._packets)
        return found if draw.random() < 0.5 else self._changed(found)

    def _packet_3(self) -> bytes:
        draw = self.random
        found = draw.choice(self._legal_3 if draw.random() < 0.9 else self._packets)
        if draw.random() < 0.3:
            qos = draw.choice([0, 0, 1, 2])
            found = mqtt3.publish(
                draw.choice(TOPICS), b"x" * draw.choice([0, 1, 130]),
                qos=qos, packet_id=draw.randint(1, 5) if qos else None,
            )  # fmt: skip
        return found if draw.random() < 0.5 else self._changed(found)

    def _neighborhood(self) -> bytes:
        draw = self.random
        found = draw.choice(NEIGHBORHOODS)
        for _ in range(draw.choice([0, 0, 1, 1, 2, 4])):
            at = draw.randint(0, len(found))
            end = at + draw.choice([0, 0, 1, 1, 5])
            found = found[:at] + draw.choice([*PIECES, ""]) + found[end:]
        encoded = found.encode("utf-8", "surrogatepass")
        return self._bytes_changed(encoded) if draw.random() < 0.1 else encoded

    def _changed(self, packet: bytes) -> bytes:
        """Change a packet; mostly so that its length is right again."""
        draw = self.random
        if draw.random() < 0.3 or len(packet) < 3:
            return self._bytes_changed(packet)
        body = self._bytes_changed(packet[2 if packet[1] < 0x80 else 3 :])
        first = packet[0] if draw.random() < 0.9 else draw.randrange(256)
        return encode.packet(first, body)

    def _bytes_changed(self, data: bytes) -> bytes:
        draw, changed = self.random, bytearray(data)
        for _ in range(draw.choice([1, 1, 1, 2, 3, 6])):
            at = draw.randrange(len(changed) + 1)
            kind = draw.random()
            if kind < 0.25 and at < len(changed):
                changed[at] = draw.choice([*NUMBERS, draw.randrange(256)])
            elif kind < 0.45 and at < len(changed):
                changed[at] ^= 1 << draw.randrange(8)
            elif kind < 0.6:
                del changed[at : at + draw.choice([1, 2, 8])]
            elif kind < 0.8:
                changed[at:at] = draw.randbytes(draw.choice([1, 2, 4]))
            else:
                other = draw.choice(self._packets)
                cut = draw.randrange(len(other))
                changed[at:at] = other[cut : cut + draw.choice([1, 4, 16])]
        return bytes(changed)

    def _cut(self, data: bytes) -> list[bytes]:
        """As the network cuts it: mostly not at all."""
        draw = self.random
        if draw.random() < 0.7 or len(data) < 2:
            return [data] if data else []
        edges = sorted({0, len(data), *(draw.randrange(len(data)) for _ in range(3))})
        return [data[start:stop] for start, stop in pairwise(edges)]
