"""Messages of the broker itself: wills, notices, and the $SYS topics.

The $SYS topics have Mosquitto's names, so that exporters and dashboards work unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from broker.core.core_state import CoreState
from broker.core.counters import Drop
from broker.core.message import Message
from broker.core.publish.publish_answers import entity_refusal
from broker.core.publish.router import Router
from broker.core.retained.retained_messages import RetainedWriter
from broker.core.sessions.session import Session
from broker.filter.memberships import Slots


class OwnMessages:
    """Publishes messages that no client sends: without rights, and without an answer."""

    __slots__ = ("_retained_writer", "_router", "_state")

    def __init__(self, state: CoreState, router: Router, retained_writer: RetainedWriter) -> None:
        self._state = state
        self._router = router
        self._retained_writer = retained_writer

    def publish(self, message: Message, publisher: Session | None = None) -> None:
        """Publish a message; ``publisher`` is that of a will."""
        route = self._state.routes.of(message.topic.encode())
        if route.gateway_key is not None and not self._state.keys.is_settled(route):
            key = route.gateway_key
            self._state.keys.ask((key,), lambda _error: self._publish(message, publisher))
            return
        self._publish(message, publisher)

    def _publish(self, message: Message, publisher: Session | None) -> None:
        route = self._state.routes.of(message.topic.encode())
        refusal = entity_refusal(self._state, route, message.peid)
        if refusal is not None:
            self._state.counters.drops[refusal.drop] += 1
            return
        if message.peid is None and route.gateway_peid is not None:
            message.name_entity(route.gateway_peid, route.peid_property)
        if message.retain:
            message.author = None if publisher is None else publisher.identity
            user_name = None if publisher is None else publisher.identity.user_name
            if not message.payload or self._state.retained.has_room_for(message, user_name):
                self._retained_writer.save(message)
            else:
                # Clients that are subscribed get it, later ones do not. There is no one to answer.
                self._state.counters.drops[Drop.RETAINED_FULL] += 1
        slots: Slots | None = ()
        if message.peid is not None and route.spatial:
            slots = self._state.memberships.look_up(message.peid)
            if route.is_waiting:
                self._state.counters.drops[Drop.NEIGHBORHOOD_WAITS] += 1
        if slots is not None:
            self._router.route(message, route, slots, publisher)
            return
        peid = message.peid or 0

        def came(found: Mapping[int, Slots], _error: str | None) -> None:
            fresh = self._state.routes.of(message.topic.encode())
            self._router.route(message, fresh, found.get(peid, ()), publisher)

        self._state.ask_memberships((peid,), came)


_WINDOWS: Final = (("1min", 60.0), ("5min", 300.0), ("15min", 900.0))


class _Load:
    """A rate for each minute, averaged with less weight on older values."""

    __slots__ = ("_last", "_rates", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._last = 0
        self._rates = [0.0] * len(_WINDOWS)

    def update(self, total: int, seconds: float) -> Iterator[tuple[str, str]]:
        rate = (total - self._last) * 60.0 / seconds
        self._last = total
        for number, (window, length) in enumerate(_WINDOWS):
            weight = math.exp(-seconds / length)
            self._rates[number] = rate + weight * (self._rates[number] - rate)
            yield f"load/{self.name}/{window}", f"{self._rates[number]:.2f}"


class SysTopics:
    """Publishes the broker's figures, only those that changed."""

    __slots__ = ("_interval", "_last", "_loads", "_publish", "_started", "_state", "_updated")

    def __init__(
        self, state: CoreState, publish: Callable[[Message], None], version: str, interval: float
    ) -> None:
        self._state = state
        self._publish = publish
        self._interval = interval
        self._started = self._updated = state.clock()
        self._last: dict[str, str] = {}
        self._loads: dict[str, _Load] = {}
        self._publish_figure("version", f"spaps version {version}")
        state.timers.at(self._started + interval, self._update)

    def _update(self) -> None:
        now = self._state.clock()
        for name, value in self._figures(now):
            self._publish_figure(name, value)
        self._updated = now
        self._state.timers.at(now + self._interval, self._update)

    def _publish_figure(self, name: str, value: str) -> None:
        if self._last.get(name) != value:
            self._last[name] = value
            self._publish(Message(f"$SYS/broker/{name}", value.encode(), retain=True))

    def _figures(self, now: float) -> Iterator[tuple[str, str]]:
        state = self._state
        counters, sessions, retained = state.counters, state.sessions, state.retained
        yield "uptime", f"{int(now - self._started)} seconds"
        dropped = sum(counters.drops.values())
        packets_sent = counters.publishes_sent + state.output_gate.answers
        connected = sessions.connected
        stored = [len(one.outgoing.queue) + len(one.outgoing.unacknowledged) for one in sessions]
        totals = {
            "clients/total": len(sessions),
            "clients/connected": connected,
            "clients/active": connected,
            "clients/disconnected": len(sessions) - connected,
            "clients/inactive": len(sessions) - connected,
            "clients/maximum": sessions.most_connected,
            "clients/expired": counters.sessions_expired,
            "messages/received": counters.packets_received,
            "messages/sent": packets_sent,
            "messages/stored": sum(stored) + retained.count,
            "store/messages/count": sum(stored) + retained.count,
            "store/messages/bytes": sum(one.outgoing.bytes for one in sessions) + retained.bytes,
            "publish/messages/received": counters.publishes_received,
            "publish/messages/sent": counters.publishes_sent,
            "publish/messages/dropped": dropped,
            "publish/bytes/received": counters.publish_bytes_received,
            "publish/bytes/sent": counters.publish_bytes_sent,
            "bytes/received": counters.bytes_received,
            "bytes/sent": counters.bytes_sent,
            "retained messages/count": retained.count,
            "subscriptions/count": state.index.count,
            "shared_subscriptions/count": state.index.shared_count,
            "neighborhoods/count": len(state.slots),
        }
        for name, total in totals.items():
            yield name, str(total)
        seconds = max(now - self._updated, 1e-3)
        for name, total in (
            ("messages/received", counters.packets_received),
            ("messages/sent", packets_sent),
            ("publish/received", counters.publishes_received),
            ("publish/sent", counters.publishes_sent),
            ("publish/dropped", dropped),
            ("bytes/received", counters.bytes_received),
            ("bytes/sent", counters.bytes_sent),
            ("connections", counters.connections),
            ("sockets", counters.connections),
        ):
            load = self._loads.setdefault(name, _Load(name))
            yield from load.update(total, seconds)
