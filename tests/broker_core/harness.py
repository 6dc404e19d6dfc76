"""A core that is driven by hand: clients are lists of packets, time stands still."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mqtt5
import numpy as np

from broker.codec.reason_codes import ReasonCode
from broker.core.broker_core import Core
from broker.core.journal import Record
from broker.core.requests import (
    Authenticate,
    FindKeys,
    Forget,
    Judge,
    LookUp,
    Request,
    Resolution,
    ResolutionRefusal,
    Resolve,
)
from broker.core.sessions.connection import Connection
from broker.core.verdicts import Action, Identity
from broker.filter.memberships_memory import MemoryMemberships
from tests.broker_core import encode, mqtt3


class Clock:
    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@dataclass(eq=False)
class Client:
    harness: Harness
    connection: Connection
    packets: list[Any] = field(default_factory=list)
    raw: bytes = b""
    is_closed: bool = False
    # Whether it speaks MQTT 3: its packets are then read as such.
    is_old: bool = False

    def send(self, *data: bytes) -> list[Any]:
        """Send, let the core settle, and give what came back, to this client alone."""
        already = len(self.packets)
        for one in data:
            self.harness.core.receive(self.connection, one)
        self.harness.settle()
        return self.packets[already:]

    def take(self) -> list[Any]:
        """Everything that came since the last time."""
        taken, self.packets = self.packets, []
        return taken

    def messages(self) -> list[Any]:
        """The PUBLISH packets among it."""
        kinds = (mqtt5.PublishPacket, mqtt3.Published)
        return [one for one in self.take() if isinstance(one, kinds)]

    def lose(self) -> None:
        """The network connection breaks."""
        self.is_closed = True
        self.harness.core.connection_lost(self.connection)
        self.harness.settle()

    def subscribe(self, pattern: str, options: int = 0, **keywords: Any) -> Any:
        (answer,) = [
            one
            for one in self.send(encode.subscribe((pattern, options), **keywords))
            if isinstance(one, mqtt5.SubAckPacket)
        ]
        return answer

    def subscribe_near(
        self, pattern: str, descriptor: str, nsid: int | None = None, options: int = 0
    ) -> Any:
        properties = encode.user("neighborhood", descriptor)
        if nsid is not None:
            properties += encode.user("nsid", str(nsid))
        return self.subscribe(pattern, options, properties=properties)


class Harness:
    """Answers the core's requests as set in ``logins``, ``verdicts`` and ``neighborhoods``.

    What is in ``held`` (kinds of requests) is not answered but collected in ``waiting``.
    """

    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        options.setdefault("memberships", MemoryMemberships())
        options.setdefault("sys_interval", 0)
        self.memberships = options["memberships"]
        self.core = Core(clock=self.clock, **options)
        self.clients: dict[Connection, Client] = {}
        self.neighborhoods: dict[str, Sequence[int] | str] = {}
        self.logins: Callable[[Authenticate], ReasonCode] = lambda _request: ReasonCode.SUCCESS
        self.judge: Callable[[Identity, str, Action], ReasonCode] = (
            lambda _client, _topic, _action: ReasonCode.SUCCESS
        )
        self.slots_of: Callable[[int], Sequence[int]] = lambda _peid: ()
        # The entities by key; which keys were asked for, together; why there is no answer.
        self.keys: dict[str, int] = {}
        self.asked_keys: list[tuple[str, ...]] = []
        self.key_error: str | None = None
        self.held: tuple[type, ...] = ()
        self.waiting: list[Request] = []
        self.forgotten: list[int] = []
        self.warnings: tuple[str, ...] = ()
        self.records: list[Record] = []
        self.stores = True
        self.unblocked: list[Connection] = []
        self._sub_ids = 0

    def open(self, host: str | None = None) -> Client:
        client = Client(self, self.core.open(host=host))
        self.clients[client.connection] = client
        return client

    def connect(self, client_id: str = "c", host: str | None = None, **keywords: Any) -> Client:
        """A client at work; its CONNACK is the first of its packets."""
        client = self.open(host)
        client.send(encode.connect(client_id, **keywords))
        return client

    def connect_3(self, client_id: str = "c", host: str | None = None, **keywords: Any) -> Client:
        """The same with MQTT 3.1.1, or 3.1 by its ``level``."""
        client = self.open(host)
        client.is_old = True
        client.send(mqtt3.connect(client_id, **keywords))
        return client

    def advance(self, seconds: float) -> None:
        """Let time pass, stopping at each deadline as a shell would."""
        until = self.clock.now + seconds
        while (due := self.core.next_deadline()) is not None and due <= until:
            self.clock.now = max(self.clock.now, due)
            self.core.tick()
            self.settle()
        self.clock.now = until

    def settle(self) -> None:
        """Answer, store and write until nothing is left to do."""
        outbox = self.core.outbox
        while True:
            self.core.journal.flush()
            position, records = self.core.journal.take()
            self.records += records
            if self.stores and position > self.core.journal.committed:
                self.core.committed(position)
            if not (outbox.requests or outbox.writes or outbox.closing):
                break
            requests, outbox.requests[:] = list(outbox.requests), []
            for request in requests:
                if isinstance(request, self.held):
                    self.waiting.append(request)
                else:
                    self.answer(request)
            writes, outbox.writes[:] = list(outbox.writes), []
            for connection in writes:
                self._deliver(self.clients[connection], self.core.output_of(connection))
            for connection in outbox.closing:
                self.clients[connection].is_closed = True
            outbox.closing.clear()
        self.unblocked += outbox.unblocked
        outbox.unblocked.clear()

    def store(self) -> None:
        """Commit what was held back while ``stores`` was false."""
        self.core.committed(self.core.journal.position)
        self.settle()

    def answer(self, request: Request) -> None:
        match request:
            case Authenticate():
                request.answer(self.logins(request), request.user_name, None)
            case Judge():
                verdict = self.judge(request.client, request.topic, request.action)
                request.answer(verdict)
            case Resolve():
                self._resolve(request)
            case LookUp():
                found = {peid: tuple(self.slots_of(peid)) for peid in request.peids}
                request.answer(found, None)
            case FindKeys():
                self.asked_keys.append(request.keys)
                found_keys = {key: self.keys[key] for key in request.keys if key in self.keys}
                request.answer({} if self.key_error else found_keys, self.key_error)
            case Forget():
                self.forgotten += request.sub_ids

    def answer_waiting(self) -> None:
        waiting, self.waiting = self.waiting, []
        for request in waiting:
            self.answer(request)
        self.settle()

    def _resolve(self, request: Resolve) -> None:
        found = self.neighborhoods[request.descriptor]
        if isinstance(found, str):
            request.answer(ResolutionRefusal(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, found))
            return
        first = self._sub_ids + 1
        self._sub_ids += len(request.filters)
        sub_ids = tuple(range(first, self._sub_ids + 1))
        peids = np.unique(np.array(found, np.int64))
        descriptor = None if request.name is None else f"what {request.name} stands for"
        request.answer(Resolution(sub_ids, peids, self.warnings, descriptor=descriptor))

    def _deliver(self, client: Client, data: bytes) -> None:
        client.raw += data
        view = memoryview(data)
        while view:
            if client.is_old:
                old, size = mqtt3.read(bytes(view))
                client.packets.append(old)
            else:
                packet, size = mqtt5.read(view)
                client.packets.append(packet)
            view = view[size:]
