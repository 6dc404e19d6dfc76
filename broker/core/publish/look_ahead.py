"""Asks for what a chunk of a publisher's input needs, all of it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from broker.codec.fields import MAX_REMAINING_LENGTH, read_header
from broker.codec.publish import Publish
from broker.codec.reason_codes import ProtocolError
from broker.core.core_state import CoreState
from broker.core.sessions.connection import Connection
from broker.filter.memberships import Slots

# Packets were compared with the real limit when they came in.
_NO_LIMIT: Final = 2 * MAX_REMAINING_LENGTH


class LookAhead:
    """Requests all that a chunk of input needs, and blocks its publisher until then."""

    __slots__ = ("_resume", "_state")

    def __init__(self, state: CoreState, resume: Callable[[Connection], None]) -> None:
        self._state = state
        self._resume = resume

    def ask(self, connection: Connection, data: bytes, start: int, peid: int) -> None:
        """Ask for every peid from the packet at ``start`` to the end of the chunk.

        ``peid`` is that of this packet: a topic alias may stand for the topic that names it.
        """
        peids = tuple(dict.fromkeys((peid, *self._unknown_peids(connection, data, start))))

        def came(found: Mapping[int, Slots], error: str | None) -> None:
            if connection.is_blocked:
                connection.found = found
                connection.failed = frozenset() if error is None else frozenset(peids)
                self._resume(connection)

        connection.is_blocked = True
        self._state.ask_memberships(peids, came)

    def ask_keys(self, connection: Connection, data: bytes, start: int, key: str) -> None:
        """Do the same for every key that a topic names."""
        keys = tuple(dict.fromkeys((key, *self._unknown_keys(connection, data, start))))

        def came(error: str | None) -> None:
            if connection.is_blocked:
                connection.failed = frozenset() if error is None else frozenset(keys)
                self._resume(connection)

        connection.is_blocked = True
        self._state.keys.ask(keys, came)

    def _unknown_keys(self, connection: Connection, data: bytes, start: int) -> dict[str, None]:
        unknown: dict[str, None] = {}
        # Reported when its turn comes: the packets before it are served.
        with suppress(ProtocolError):
            for publish in self._publishes(connection, data, start):
                if publish.properties.alias is not None and not publish.topic:
                    continue
                route = self._state.routes.of(publish.topic)
                if route.gateway_key is not None and not self._state.keys.is_settled(route):
                    unknown[route.gateway_key] = None
        return unknown

    def _unknown_peids(self, connection: Connection, data: bytes, start: int) -> dict[int, None]:
        look_up, known = self._state.memberships.look_up, self._state.routes.by_topic
        unknown: dict[int, None] = {}
        with suppress(ProtocolError):
            for publish in self._publishes(connection, data, start):
                peid = publish.properties.peid
                if peid is None and (route := known.get(publish.topic)) is not None:
                    peid = route.gateway_peid
                if peid is not None and look_up(peid) is None:
                    unknown[peid] = None
        return unknown

    def _publishes(self, connection: Connection, data: bytes, position: int) -> Iterator[Publish]:
        """Yield the PUBLISH packets from a position on; ProtocolError at one that is wrong."""
        most_users, read = self._state.limits.user_properties, connection.codec.read_publish
        while position < len(data):
            header = read_header(data, position, _NO_LIMIT)
            if header is None or header[1] > len(data):
                break
            if data[position] & 0xF0 == 0x30:
                yield read(data, data[position], *header, most_users)
            position = header[1]
