"""The subscriptions of a client: checked before they are sent, held, ended and restored."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from paho.mqtt.enums import MQTTErrorCode

from spaps.client.answers import Answer, AnswerFuture
from spaps.client.connection import ClientConnection
from spaps.client.errors import (
    ClientUseError,
    NeighborhoodRefusedError,
    NotConnectedError,
    RefusedError,
    SubscribeRefusedError,
    UnsubscribeRefusedError,
)
from spaps.client.message import (
    MAX_DESCRIPTOR_BYTES,
    MAX_PEID,
    NEIGHBORHOOD,
    NEIGHBORHOOD_MALFORMED,
    NEIGHBORHOOD_REFUSED,
    NSID,
    WARNING,
    numbers_of,
)


@runtime_checkable
class WritesJson(Protocol):
    """An object that can write itself as a JSON descriptor, such as the server's Neighborhood."""

    def to_json(self) -> str:
        """Return the descriptor as JSON text."""


# Types of a neighborhood: JSON or notation as text, a mapping, or an object with ``to_json``.
AnyNeighborhood: TypeAlias = str | Mapping[str, Any] | WritesJson


@dataclass(frozen=True, slots=True)
class Request:
    """A subscription to a topic filter; with a descriptor, to a neighborhood under it."""

    topic: str
    qos: int
    descriptor: str | None = None
    nsid: int | None = None

    def user_properties(self) -> list[tuple[str, str]]:
        """Return the user properties of the SUBSCRIBE packet."""
        nsid = None if self.nsid is None else str(self.nsid)
        pairs = ((NEIGHBORHOOD, self.descriptor), (NSID, nsid))
        return [(name, value) for name, value in pairs if value is not None]

    def __str__(self) -> str:
        number = f" as nsid {self.nsid}" if self.nsid is not None else ""
        kind = "" if self.descriptor is None else " with a neighborhood"
        return f"subscription to {self.topic!r}{kind}{number}"


def descriptor_text(neighborhood: AnyNeighborhood) -> str:
    """Return the descriptor as text for the user property.

    The broker checks it. Only what no MQTT packet can carry is an error here.
    """
    try:
        text = _text(neighborhood)
        size = len(text.encode())
    except (ValueError, TypeError, RecursionError) as error:
        raise ClientUseError(f"a neighborhood that cannot be written: {error}") from error
    if size > MAX_DESCRIPTOR_BYTES:
        raise ClientUseError(f"a neighborhood has {size} bytes; allowed: {MAX_DESCRIPTOR_BYTES}")
    if "\0" in text:
        raise ClientUseError("a neighborhood has a character U+0000, which MQTT does not allow")
    return text


def _text(neighborhood: AnyNeighborhood) -> str:
    if isinstance(neighborhood, str):
        return neighborhood
    if isinstance(neighborhood, Mapping):
        return _ENCODER.encode(neighborhood)
    if isinstance(neighborhood, WritesJson):
        return neighborhood.to_json()
    kind = type(neighborhood).__name__
    raise ClientUseError(f"a neighborhood is JSON, notation, a dict or a Neighborhood, not {kind}")


def _plain_object(value: object) -> dict[Any, Any]:
    """Return a mapping of another type as a dict, for json, which writes dicts alone."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain_object
)


def refusal_of(request: Request, answer: Answer) -> RefusedError | None:
    """Return the error for a request that is refused, None when it is granted."""
    codes = () if request.descriptor is None else (NEIGHBORHOOD_REFUSED, NEIGHBORHOOD_MALFORMED)
    kind = NeighborhoodRefusedError if answer.code.value in codes else SubscribeRefusedError
    return answer.refusal(kind, str(request))


def checked_nsid(nsid: int | None) -> int | None:
    """Return the nsid that a caller has chosen, or raise an error when it is none."""
    if nsid is not None and (isinstance(nsid, bool) or not 0 <= nsid <= MAX_PEID):
        raise ClientUseError(f"an nsid is an integer from 0 to 2^63-1, not {str(nsid)[:40]!r}")
    return nsid


class Subscriptions:
    """What the broker has granted to this client and the caller has not ended.

    A caller asks, waits for the answer in its own way, and hands it to ``grant`` or ``end``.
    When the broker has a new session for this client, all of it is asked for again.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._neighborhoods: dict[int, Request] = {}
        self._warnings: dict[int, tuple[str, ...]] = {}
        self._plain: dict[str, Request] = {}
        connection.on_new_session = self._restore

    def ask(self, request: Request) -> AnswerFuture:
        """Send SUBSCRIBE. If the caller stops waiting, a late grant is undone."""
        return self._connection.answers.ask(
            partial(self._send, request), partial(self._undo, request)
        )

    def grant(self, request: Request, answer: Answer) -> Request:
        """Hold a granted subscription and return it with its nsid; raise when it was refused.

        An nsid that is used again stands for the new subscription alone.
        """
        refusal = refusal_of(request, answer)
        if refusal is not None:
            raise refusal
        granted = _with_nsid(request, answer)
        with self._lock:
            if granted.nsid is None:
                self._plain[granted.topic] = granted
            else:
                texts = (text for name, text in answer.user_properties if name == WARNING)
                self._neighborhoods[granted.nsid] = granted
                self._warnings[granted.nsid] = tuple(texts)
        return granted

    def ask_end(self, topic: str, nsid: int | None) -> AnswerFuture:
        """Send UNSUBSCRIBE for one neighborhood, or without nsid for all under the filter."""
        return self._connection.answers.ask(partial(self._send_end, topic, nsid))

    def end(self, topic: str, nsid: int | None, answer: Answer) -> None:
        """Forget what was ended; raise when the broker refused that."""
        refusal = answer.refusal(UnsubscribeRefusedError, end_text(topic))
        if refusal is not None:
            raise refusal
        if nsid is not None:
            self._remove(nsid)
            return
        with self._lock:
            self._plain.pop(topic, None)
            for one in [n for n, held in self._neighborhoods.items() if held.topic == topic]:
                del self._neighborhoods[one]
                self._warnings.pop(one, None)

    def nsids(self) -> tuple[int, ...]:
        """Return the nsids of the neighborhoods that are held."""
        with self._lock:
            return tuple(self._neighborhoods)

    def topic_of(self, nsid: int) -> str:
        """Return the topic filter of a neighborhood; raise when this client does not hold it."""
        with self._lock:
            held = self._neighborhoods.get(nsid)
        if held is None:
            raise ClientUseError(f"this client holds no neighborhood {nsid}")
        return held.topic

    def warnings(self, nsid: int) -> tuple[str, ...]:
        """Return the broker's warnings about this neighborhood."""
        with self._lock:
            return self._warnings.get(nsid, ())

    def _all(self) -> list[Request]:
        with self._lock:
            return [*self._plain.values(), *self._neighborhoods.values()]

    def _remove(self, nsid: int) -> None:
        with self._lock:
            self._neighborhoods.pop(nsid, None)
            self._warnings.pop(nsid, None)

    def _send(self, request: Request) -> tuple[MQTTErrorCode, int | None]:
        return self._connection.subscribe(request.topic, request.qos, request.user_properties())

    def _send_end(self, topic: str, nsid: int | None) -> tuple[MQTTErrorCode, int | None]:
        return self._connection.unsubscribe(topic, [] if nsid is None else [(NSID, str(nsid))])

    def _undo(self, request: Request, answer: Answer) -> None:
        """End what was granted after the caller had stopped waiting."""
        if answer.code.is_failure:
            return
        granted = _with_nsid(request, answer)
        if granted.nsid is not None:
            # If it has replaced a subscription of this client, then that one is gone already.
            self._remove(granted.nsid)
            self._send_end(granted.topic, granted.nsid)
        elif all(held.topic != granted.topic for held in self._all()):
            self._send_end(granted.topic, None)

    def _restore(self) -> None:
        """Ask for everything again, in order; runs on the network thread."""
        for request in self._all():
            try:
                future = self._connection.answers.ask(partial(self._send, request))
            except NotConnectedError:
                return  # lost again; the next connection restores everything
            future.add_done_callback(partial(self._restored, request))

    def _restored(self, request: Request, future: AnswerFuture) -> None:
        # Without a result the connection was lost again.
        refusal = None if future.exception() else refusal_of(request, future.result())
        if refusal is not None:
            # It stays held: what is refused now may be granted after the next reconnect.
            self._connection.report(refusal)


def end_text(topic: str) -> str:
    """Return how errors name an UNSUBSCRIBE."""
    return f"unsubscribe from {topic!r}"


def _with_nsid(request: Request, answer: Answer) -> Request:
    nsids = numbers_of(answer.user_properties, NSID)
    return replace(request, nsid=nsids[0] if nsids else None)
