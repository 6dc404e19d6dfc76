"""Who must get what: random clients, neighborhoods, breaks and kills against a simple model.

Nothing acknowledged is lost at QoS 1 and 2, nothing is doubled at QoS 2, and nobody gets what
topic and neighborhood do not give, or what it has no right to read at that moment.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import mqtt5
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from broker.codec.reason_codes import ReasonCode
from broker.core.journal import Record
from broker.core.verdicts import Action, Identity
from spatial_udfs.entity_table import Int64s
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness
from tests.broker_core.mini_client import Message, MiniClient

NAMES = ("a", "b", "c")
NEIGHBORHOODS = {"near": [1, 2], "far": [2, 3]}
TOPICS = {"x/1": {"x/1", "x/+"}, "x/2": {"x/2", "x/+"}}
FILTERS = ("x/1", "x/2", "x/+")


@dataclass
class Expected:
    """``may``: whoever it was ever right to give it to. ``must``: whoever is owed it, and how."""

    message: Message
    may: set[str] = field(default_factory=set)
    must: dict[str, int] = field(default_factory=dict)
    routed: int = 0


class Rights:
    """Who may not read what now, by client id and topic."""

    def __init__(self) -> None:
        self.denied: set[tuple[str, str]] = set()

    def verdict(self, client: Identity, topic: str, action: Action) -> ReasonCode:
        is_denied = action is Action.RECEIVE and (client.client_id, topic) in self.denied
        return ReasonCode.NOT_AUTHORIZED if is_denied else ReasonCode.SUCCESS


class Watched(Harness):
    """Looks at each packet when it goes out, whenever its client may read it."""

    def __init__(self, rights: Rights) -> None:
        super().__init__(durable=True, access=rights)
        self._rights = rights

    def _deliver(self, client: Client, data: bytes) -> None:
        before = len(client.packets)
        super()._deliver(client, data)
        session = client.connection.session
        for packet in client.packets[before:]:
            if isinstance(packet, mqtt5.PublishPacket) and session is not None:
                reader = (session.client_id, packet.topic)
                assert reader not in self._rights.denied, f"{reader} has no right to it"


class Broker(RuleBasedStateMachine):
    """The broker is killed at any time; only what it stored comes back."""

    @initialize()
    def start(self) -> None:
        self.rights = Rights()
        self.stored: list[Record] = []
        self.sub_ids = 0
        # Filter or nsid -> (filter, qos, neighborhood) of each client.
        self.held: dict[str, dict[str | int, tuple[str, int, str | None]]] = {n: {} for n in NAMES}
        self.expected: dict[bytes, Expected] = {}
        self.clients = {name: MiniClient(name) for name in NAMES}
        self.boot()
        for name in NAMES:
            self.subscribe(name, "x/+", 2, None, 1)
        self.read_all()

    def boot(self) -> None:
        self.harness = Watched(self.rights)
        self.harness.neighborhoods = dict(NEIGHBORHOODS)
        self.harness._sub_ids = self.sub_ids
        self.harness.core.restore(self.stored)
        builder = self.harness.memberships.begin_generation()
        for session in self.harness.core.sessions:
            for one in session.subscriptions.values():
                if one.terms.descriptor is not None:
                    builder.add(one.slot, peids_of(one.terms.descriptor))
        self.harness.memberships.switch(builder)
        self.harness.settle()
        for client in self.clients.values():
            client.connect(self.harness)
        # From now on something is stored only when it is its turn.
        self.harness.stores = False

    def read_all(self) -> None:
        """Until nobody has anything to say."""
        while any(one.link is not None and one.link.packets for one in self.clients.values()):
            for client in self.clients.values():
                client.read()

    # --- what clients do

    @rule(
        name=st.sampled_from(NAMES),
        pattern=st.sampled_from(FILTERS),
        qos=st.integers(0, 2),
        neighborhood=st.none() | st.sampled_from(sorted(NEIGHBORHOODS)),
        nsid=st.integers(1, 2),
    )
    def subscribe(
        self, name: str, pattern: str, qos: int, neighborhood: str | None, nsid: int
    ) -> None:
        link = self.clients[name].link
        if link is None:
            return
        self.harness.store()
        if neighborhood is None:
            link.send(encode.subscribe((pattern, qos)))
        else:
            properties = encode.user("neighborhood", neighborhood) + encode.user("nsid", str(nsid))
            link.send(encode.subscribe((pattern, qos), properties=properties))
        self.harness.store()
        assert any(isinstance(one, mqtt5.SubAckPacket) for one in link.packets)
        key: str | int = pattern if neighborhood is None else nsid
        before = self.held[name].get(key)
        self.held[name][key] = (pattern, qos, neighborhood)
        if before is not None and (before[0], before[2]) != (pattern, neighborhood):
            self.forgive(name)

    @rule(name=st.sampled_from(NAMES), pattern=st.sampled_from(FILTERS))
    def unsubscribe(self, name: str, pattern: str) -> None:
        link = self.clients[name].link
        if link is None:
            return
        # The client must see UNSUBACK, or it is right that messages go on coming.
        self.harness.store()
        link.send(encode.unsubscribe(pattern))
        self.harness.store()
        assert any(isinstance(one, mqtt5.UnsubAckPacket) for one in link.packets)
        self.held[name] = {k: held for k, held in self.held[name].items() if held[0] != pattern}
        self.forgive(name)

    def forgive(self, name: str, topic: str | None = None) -> None:
        """A client that gave something up is owed nothing of what still waits for it."""
        for one in self.expected.values():
            if topic in (None, one.message.topic):
                one.must.pop(name, None)

    @rule(
        name=st.sampled_from(NAMES),
        topic=st.sampled_from(sorted(TOPICS)),
        qos=st.sampled_from([0, 1, 2, 2, 2]),
        peid=st.none() | st.integers(1, 4),
    )
    def publish(self, name: str, topic: str, qos: int, peid: int | None) -> None:
        client = self.clients[name]
        if client.link is None or not client.is_ready:
            return
        message = Message(topic, b"%d" % len(self.expected), qos, peid)
        self.expected[message.payload] = Expected(message)
        self.route(message)
        client.publish(message)

    def route(self, message: Message) -> None:
        """The broker is about to see the message: note who matches now."""
        expected = self.expected[message.payload]
        matching = {}
        for name, held in self.held.items():
            granted = [
                qos
                for pattern, qos, neighborhood in held.values()
                if pattern in TOPICS[message.topic]
                and (neighborhood is None or message.peid in NEIGHBORHOODS[neighborhood])
            ]
            if granted:
                matching[name] = min(message.qos, max(granted))
        expected.may |= matching.keys()
        for name, topic in self.rights.denied:
            if topic == message.topic:
                matching.pop(name, None)
        if expected.routed:
            # Seen twice: only who matched both times is surely owed it, at the lower QoS.
            both = expected.must.keys() & matching.keys()
            expected.must = {name: min(expected.must[name], matching[name]) for name in both}
        else:
            expected.must = matching
        expected.routed += 1

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 5), stores=st.booleans())
    def read(self, name: str, count: int, stores: bool) -> None:
        if stores:
            self.harness.store()
        self.clients[name].read(count)

    @rule(name=st.sampled_from(NAMES))
    def lose(self, name: str) -> None:
        self.clients[name].lose()

    @rule(name=st.sampled_from(NAMES))
    def come_back(self, name: str) -> None:
        client = self.clients[name]
        if client.link is None:
            for message in client.owes():
                self.route(message)
            client.connect(self.harness)

    # --- what happens to the broker

    @rule(name=st.sampled_from(NAMES), topic=st.sampled_from(sorted(TOPICS)))
    def give_or_take_a_right(self, name: str, topic: str) -> None:
        self.rights.denied ^= {(name, topic)}
        if (name, topic) in self.rights.denied:
            self.forgive(name, topic)
        self.harness.core.access_changed()
        self.harness.settle()

    @rule()
    def store(self) -> None:
        self.harness.store()

    @rule()
    def kill(self) -> None:
        core = self.harness.core
        self.stored += self.harness.records[: core.journal.committed]
        self.sub_ids = self.harness._sub_ids
        for client in self.clients.values():
            client.link = None
            for message in client.owes():
                self.route(message)
        self.boot()

    # --- what must be true in the end

    def teardown(self) -> None:
        if not hasattr(self, "harness"):
            return
        self.harness.stores = True
        self.harness.store()
        for name in NAMES:
            self.come_back(name)
        self.read_all()
        for name, client in self.clients.items():
            counts = Counter(payload for payload, _ in client.log)
            for payload in counts:
                assert name in self.expected[payload].may, f"{name} got {payload!r}"
            doubled = {payload for payload, qos in client.log if qos == 2 and counts[payload] > 1}
            assert not doubled, f"{name} got {doubled} twice"
            for payload, expected in self.expected.items():
                if expected.must.get(name) and payload in self.acknowledged():
                    assert counts[payload], f"{name} never got {payload!r}"

    def acknowledged(self) -> set[bytes]:
        return set().union(*(one.acknowledged for one in self.clients.values()))


def peids_of(descriptor: str) -> Int64s:
    return np.array(NEIGHBORHOODS[descriptor], np.int64)


Broker.TestCase.settings = settings(max_examples=50, stateful_step_count=40)
TestBroker = Broker.TestCase
