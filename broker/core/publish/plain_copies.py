"""The packet of a message for receivers without aliases, packet limit or rules."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.message import Message


class PlainCopies:
    """Makes such packets, and remembers the last one.

    Receivers of one message mostly get the same bytes. They are remembered here and not with the
    message, which may be kept for long and would take twice its bytes.
    """

    __slots__ = ("_clock", "_last")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: tuple[Message, tuple[int, bytes], tuple[bytes, bytes]] | None = None

    def parts(self, message: Message, first: int, extra: bytes) -> tuple[bytes, bytes]:
        """Return the packet in two parts."""
        last = self._last
        if last is not None and last[0] is message and last[1] == (first, extra):
            return last[2]
        if message.expires_at is not None:
            return message.packet_parts(first, extra, self._clock())
        parts = message.packet_parts(first, extra, 0.0)
        self._last = (message, (first, extra), parts)
        return parts
