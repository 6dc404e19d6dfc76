"""What a client's bytes can do wrong. Nothing else may escape from the codec."""

from __future__ import annotations

from broker.codec.reason_codes import ReasonCode
from schemas.errors import SpapsError


class ProtocolError(SpapsError):
    """The connection must end with ``reason``; the text becomes the reason string."""

    def __init__(self, reason: ReasonCode, message: str) -> None:
        """Keep the code apart from the text: the text is left out when the client wants none."""
        super().__init__(message)
        self.reason = reason


class OldProtocolError(ProtocolError):
    """A CONNECT of MQTT 3.1 or 3.1.1: it is answered in that version's format."""

    def __init__(self, version: str) -> None:
        """Name the version for the log."""
        super().__init__(
            ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, f"MQTT {version} is not served, only MQTT 5"
        )
        self.version = version


class UserPropertyLimitError(ProtocolError):
    """A packet with more user properties than the limit; the rest of it is not read.

    0x97 is the reason code for a limit of the implementation. 0x95 would say that the packet is
    longer than the Maximum Packet Size, which it need not be.
    """

    def __init__(self, most: int) -> None:
        """Name the limit."""
        super().__init__(
            ReasonCode.QUOTA_EXCEEDED,
            f"more than {most} user properties in one packet; send fewer",
        )


def malformed(message: str) -> ProtocolError:
    """The packet cannot be parsed as the specification says."""
    return ProtocolError(ReasonCode.MALFORMED_PACKET, message)


def violation(message: str) -> ProtocolError:
    """The packet can be parsed, but means something that is not allowed."""
    return ProtocolError(ReasonCode.PROTOCOL_ERROR, message)
