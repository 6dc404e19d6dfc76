"""Ends connections for their input: wrong packets, too many bytes, or nothing for too long."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from broker.codec.reason_codes import (
    ProtocolError,
    ReasonCode,
    TryAgainError,
    UserPropertyLimitError,
)
from broker.core.core_state import CoreState
from broker.core.counters import Refusal
from broker.core.sessions.connection import Connection, State
from broker.core.sessions.session_lifecycle import SessionLifecycle

if TYPE_CHECKING:
    from broker.core.sessions.connect import ConnectHandler

log = logging.getLogger(__name__)

# A silent client is disconnected after one and a half times its keep alive.
PATIENCE: Final = 1.5


class InputFaults:
    """Counts the input that connections hold, and takes what their clients do wrong."""

    __slots__ = ("_connect_handler", "_lifecycle", "_state")

    def __init__(
        self, state: CoreState, lifecycle: SessionLifecycle, connect_handler: ConnectHandler
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._connect_handler = connect_handler

    def count_input(self, connection: Connection) -> None:
        """Count what the connection holds; close the one that holds most when it is too much."""
        if connection.state is State.CLOSED:
            return
        heaviest = self._state.input_budget.note(connection, connection.input_bytes)
        while heaviest is not None:
            self._state.counters.refusals[Refusal.INPUT_BYTES] += 1
            text = "no room for input of this client that is not processed yet"
            self._lifecycle.close(heaviest, ReasonCode.QUOTA_EXCEEDED, text)
            if heaviest is connection:
                return
            heaviest = self._state.input_budget.note(connection, connection.input_bytes)

    def fail(self, connection: Connection, error: ProtocolError) -> None:
        """End a connection whose client broke the protocol."""
        self._state.counters.protocol_errors += not isinstance(error, TryAgainError)
        if isinstance(error, UserPropertyLimitError):
            self._state.counters.refusals[Refusal.USER_PROPERTIES] += 1
        if connection.state is State.CONNECTING:
            self._connect_handler.refuse(connection, error)
        elif connection.state is State.NEW:
            self._state.counters.refused_connects += 1
            log.info("client refused: %s", error, extra=connection.log_fields)
            self._lifecycle.close(connection, None)
        else:
            self._lifecycle.close(connection, error.reason, str(error))


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
