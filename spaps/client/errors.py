"""The errors of the client library."""

from __future__ import annotations

import re
import ssl


class ClientError(Exception):
    """The base of all errors of the client library; its text is one readable line."""


class NotConnectedError(ClientError):
    """The broker cannot be reached, or the connection is lost or not there yet."""


def connect_error(where: str, error: Exception) -> NotConnectedError:
    """Return the error that says why a connection could not be opened."""
    reason = getattr(error, "strerror", None) or error
    if isinstance(error, ssl.SSLEOFError):
        reason = "the broker has closed it; does this port speak TLS?"
    return NotConnectedError(f"no connection to {where}: {reason}")


class AnswerTimeoutError(ClientError):
    """The broker has not answered in time."""


class ClientUseError(ClientError):
    """A call that cannot work with any broker."""


class RefusedError(ClientError):
    """The broker refused a request, with a reason code and perhaps a reason string."""

    def __init__(self, what: str, reason_code: int, name: str, reason: str | None) -> None:
        """Keep code and reason apart from the sentence, for programs that decide by them."""
        because = f": {reason}" if reason else ""
        super().__init__(f"{what} refused, {name} (0x{reason_code:02x}){because}")
        self.reason_code = reason_code
        self.reason = reason


class ConnectRefusedError(RefusedError):
    """The broker refused the connection."""


class SubscribeRefusedError(RefusedError):
    """The broker refused a subscription."""


class NeighborhoodRefusedError(SubscribeRefusedError):
    """The broker refused a neighborhood; the same request again would be refused too.

    It or its topic filter breaks a rule (code 0x8f), none of its references exists, or this broker
    serves no neighborhoods (0x83). ``stage`` is the stage that the reason names, None when it
    names none.
    """

    def __init__(self, what: str, reason_code: int, name: str, reason: str | None) -> None:
        """Keep the stage, so that callers need not parse the reason."""
        super().__init__(what, reason_code, name, reason)
        named = re.match(r"stage (\d+): ", reason or "")
        self.stage = None if named is None else int(named[1])


class NoticeError(ClientError):
    """A notice of changed neighborhoods that is not in the format of a spaPS broker."""


class UnsubscribeRefusedError(RefusedError):
    """The broker refused to end a subscription."""


class PublishRefusedError(RefusedError):
    """The broker refused a message; it is not delivered."""
