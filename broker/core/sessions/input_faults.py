"""Ends connections for their input: for protocol errors, and when it takes too much memory."""

from __future__ import annotations

import logging

from broker.codec.reason_codes import (
    ProtocolError,
    ReasonCode,
    TryAgainError,
    UserPropertyLimitError,
)
from broker.core.core_state import CoreState
from broker.core.counters import Refusal
from broker.core.sessions.connect import ConnectHandler
from broker.core.sessions.connection import Connection, State
from broker.core.sessions.session_lifecycle import SessionLifecycle

log = logging.getLogger(__name__)


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
