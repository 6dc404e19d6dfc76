"""Memberships that only Redis knows: one request for all that a chunk of input needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker.codec.framing import MAX_REMAINING_LENGTH, read_header
from broker.codec.publish import read_publish
from broker.codec.reason_codes import ProtocolError
from broker.core.core_state import CoreState
from broker.core.sessions.connection import Connection
from broker.filter.memberships import Slots

# Packets were compared with the real limit when they came in.
_NO_LIMIT: Final = 2 * MAX_REMAINING_LENGTH


class LookAhead:
    """Blocks a publisher at a packet until the answer is there, so that its order is kept."""

    __slots__ = ("_resume", "_state")

    def __init__(self, state: CoreState, resume: Callable[[Connection], None]) -> None:
        self._state = state
        self._resume = resume

    def ask(self, connection: Connection, data: bytes, start: int) -> None:
        """Ask for every peid from the packet at ``start`` to the end of the chunk."""
        peids = tuple(self._unknown_peids(data, start))

        def came(found: Mapping[int, Slots], error: str | None) -> None:
            if connection.is_blocked:
                connection.found = found
                connection.failed = frozenset() if error is None else frozenset(peids)
                self._resume(connection)

        connection.is_blocked = True
        self._state.ask_memberships(peids, came)

    def _unknown_peids(self, data: bytes, position: int) -> dict[int, None]:
        most_users = self._state.limits.user_properties
        look_up, known = self._state.memberships.look_up, self._state.routes.by_topic
        wanted: dict[int, None] = {}
        try:
            while position < len(data):
                header = read_header(data, position, _NO_LIMIT)
                if header is None or header[1] > len(data):
                    break
                if data[position] & 0xF0 == 0x30:
                    publish = read_publish(data, data[position], *header, most_users)
                    peid = publish.properties.peid
                    if peid is None and (route := known.get(publish.topic)) is not None:
                        peid = route.gateway_peid
                    if peid is not None and look_up(peid) is None:
                        wanted[peid] = None
                position = header[1]
        except ProtocolError:
            # Reported when its turn comes: the packets before it are served.
            pass
        return wanted
