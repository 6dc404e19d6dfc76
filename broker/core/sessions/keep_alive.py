"""Keep alive: a client that is silent for too long is disconnected."""

from __future__ import annotations

from typing import Final

from broker.codec.reason_codes import ReasonCode
from broker.core.core_state import CoreState
from broker.core.sessions.connection import Connection
from broker.core.sessions.session_lifecycle import SessionLifecycle

# A silent client is disconnected after one and a half times its keep alive.
PATIENCE: Final = 1.5


class KeepAlive:
    """The keep alive of all connections."""

    __slots__ = ("_lifecycle", "_state")

    def __init__(self, state: CoreState, lifecycle: SessionLifecycle) -> None:
        self._state = state
        self._lifecycle = lifecycle

    def interval(self, connection: Connection, asked: int) -> int:
        """Return the keep alive that counts; without one a dead client is never noticed.

        A client of MQTT 3 cannot be told another one than it asked for, so it may ask for more.
        """
        limits = self._state.limits
        most = limits.keep_alive if connection.has_properties else limits.keep_alive_mqtt3
        return most if most and (not asked or asked > most) else asked

    def watch(self, connection: Connection) -> None:
        """Disconnect the client when it is silent for too long."""
        if not connection.keep_alive:
            return
        deadline = connection.last_seen + PATIENCE * connection.keep_alive
        if self._state.clock() >= deadline:
            text = "nothing was heard within the keep alive"
            self._lifecycle.close(connection, ReasonCode.KEEP_ALIVE_TIMEOUT, text)
        else:
            connection.keep_alive_timer = self._state.timers.at(
                deadline, lambda: self.watch(connection)
            )
