"""$SYS topics with Mosquitto's names, so that exporters and dashboards work unchanged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from broker.core.core_state import CoreState
from broker.core.message import Message

_WINDOWS: Final = (("1min", 60.0), ("5min", 300.0), ("15min", 900.0))


class _Load:
    """A rate for each minute, averaged with less weight on what is longer ago."""

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
    """Publishes the broker's figures, each time only those that changed."""

    __slots__ = ("_interval", "_last", "_loads", "_publish", "_started", "_state", "_updated")

    def __init__(
        self, state: CoreState, publish: Callable[[Message], None], version: str, interval: float
    ) -> None:
        self._state = state
        self._publish = publish
        self._interval = interval
        self._started = self._updated = state.clock()
        self._last: dict[str, str] = {}
        self._loads = {
            name: _Load(name)
            for name in (
                "messages/received", "publish/received", "publish/sent", "publish/dropped",
                "bytes/received", "bytes/sent", "connections",
            )
        }  # fmt: skip
        self._say("version", f"spaps version {version}")
        state.timers.at(self._started + interval, self._update)

    def _update(self) -> None:
        now = self._state.clock()
        for name, value in self._figures(now):
            self._say(name, value)
        self._updated = now
        self._state.timers.at(now + self._interval, self._update)

    def _say(self, name: str, value: str) -> None:
        if self._last.get(name) != value:
            self._last[name] = value
            self._publish(Message(f"$SYS/broker/{name}", value.encode(), retain=True))

    def _figures(self, now: float) -> Iterator[tuple[str, str]]:
        counters, registry = self._state.counters, self._state.sessions
        yield "uptime", f"{int(now - self._started)} seconds"
        dropped = sum(counters.drops.values())
        connected = registry.connected
        stored = [len(one.outgoing.queue) + len(one.outgoing.identified) for one in registry]
        totals = {
            "clients/total": len(registry),
            "clients/connected": connected,
            "clients/active": connected,
            "clients/disconnected": len(registry) - connected,
            "clients/inactive": len(registry) - connected,
            "clients/maximum": registry.most_connected,
            "clients/expired": counters.sessions_expired,
            "messages/received": counters.packets_received,
            "messages/stored": sum(stored) + self._state.retained.count,
            "store/messages/count": sum(stored) + self._state.retained.count,
            "store/messages/bytes": (
                sum(one.outgoing.bytes for one in registry) + self._state.retained.bytes
            ),
            "publish/messages/received": counters.publishes_received,
            "publish/messages/sent": counters.publishes_sent,
            "publish/messages/dropped": dropped,
            "publish/bytes/received": counters.publish_bytes_received,
            "publish/bytes/sent": counters.publish_bytes_sent,
            "bytes/received": counters.bytes_received,
            "bytes/sent": counters.bytes_sent,
            "retained messages/count": self._state.retained.count,
            "subscriptions/count": self._state.index.count,
            "shared_subscriptions/count": self._state.index.shared_count,
            "neighborhoods/count": len(self._state.slots),
        }
        for name, total in totals.items():
            yield name, str(total)
        seconds = max(now - self._updated, 1e-3)
        for name, total in (
            ("messages/received", counters.packets_received),
            ("publish/received", counters.publishes_received),
            ("publish/sent", counters.publishes_sent),
            ("publish/dropped", dropped),
            ("bytes/received", counters.bytes_received),
            ("bytes/sent", counters.bytes_sent),
            ("connections", counters.connections),
        ):
            yield from self._loads[name].update(total, seconds)
