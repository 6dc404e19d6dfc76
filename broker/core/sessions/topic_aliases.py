"""Topic aliases: numbers that stand for topics on one connection, in either direction."""

from __future__ import annotations

from broker.codec.errors import ProtocolError, violation
from broker.codec.reason_codes import ReasonCode


class IncomingAliases:
    """What the client's aliases stand for; topics are bytes, as they stand in the packet."""

    __slots__ = ("_maximum", "_topics", "bytes")

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._topics: dict[int, bytes] = {}
        # What the topics take in memory.
        self.bytes = 0

    def resolve(self, alias: int, topic: bytes) -> bytes:
        """The topic of a PUBLISH with this alias; a topic that is given is remembered."""
        if alias > self._maximum:
            raise ProtocolError(
                ReasonCode.TOPIC_ALIAS_INVALID,
                f"topic alias {alias}; at most {self._maximum} is accepted",
            )
        if topic:
            self.bytes += len(topic) - len(self._topics.get(alias, b""))
            self._topics[alias] = topic
            return topic
        known = self._topics.get(alias)
        if known is None:
            # 3.3.2.3.4: an alias without a mapping is a protocol error; 0x94 means its number.
            raise violation(f"topic alias {alias} stands for nothing yet")
        return known


class OutgoingAliases:
    """Aliases for the first topics that a client gets, as many as it allows.

    No more topics than fit ``most_bytes`` get one: the others are written out.
    """

    __slots__ = ("_aliases", "_bytes_left", "_maximum")

    def __init__(self, maximum: int, most_bytes: int) -> None:
        self._maximum = maximum
        self._bytes_left = most_bytes
        self._aliases: dict[bytes, int] = {}

    def of(self, topic_field: bytes) -> tuple[int, bool]:
        """The alias of a topic, 0 if it has none, and whether the client knows it already."""
        alias = self._aliases.get(topic_field)
        if alias is not None:
            return alias, True
        if len(self._aliases) == self._maximum or len(topic_field) > self._bytes_left:
            return 0, False
        alias = len(self._aliases) + 1
        return alias, False

    def sent(self, topic_field: bytes, alias: int) -> None:
        """The client has been told what the alias stands for."""
        self._aliases[topic_field] = alias
        self._bytes_left -= len(topic_field)
