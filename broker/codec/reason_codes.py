"""The reason codes of MQTT 5, one name for each value, and the errors that have one."""

from __future__ import annotations

from enum import IntEnum

from schemas.errors import SpapsError


class ReasonCode(IntEnum):
    """A value below 0x80 is a success; it has the same meaning in every packet."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2

    @property
    def is_error(self) -> bool:
        """Whether the value reports a failure."""
        return self >= 0x80


class ProtocolError(SpapsError):
    """The connection must end with ``reason``; the text becomes the reason string."""

    def __init__(self, reason: ReasonCode, message: str) -> None:
        """Set the reason code apart from the text, which a client may not want."""
        super().__init__(message)
        self.reason = reason


class OldProtocolError(ProtocolError):
    """A CONNECT of a version before MQTT 5 that is not served: it is answered in the old format."""

    def __init__(self, message: str) -> None:
        """Set the text for the log."""
        super().__init__(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, message)


class TryAgainError(ProtocolError):
    """A message that cannot be taken now, of a client that can only be told by closing."""


class UserPropertyLimitError(ProtocolError):
    """A packet with more user properties than the limit. The rest of it is not read.

    0x97 is the reason code for a limit of the implementation. 0x95 would say that the packet is
    longer than the Maximum Packet Size, which it need not be.
    """

    def __init__(self, most: int) -> None:
        """Set the text, with the limit."""
        super().__init__(
            ReasonCode.QUOTA_EXCEEDED,
            f"more than {most} user properties in one packet; send fewer",
        )


def malformed(message: str) -> ProtocolError:
    """Return the error for a packet that cannot be parsed as the specification says."""
    return ProtocolError(ReasonCode.MALFORMED_PACKET, message)


def violation(message: str) -> ProtocolError:
    """Return the error for a packet that can be parsed, but is not allowed."""
    return ProtocolError(ReasonCode.PROTOCOL_ERROR, message)
