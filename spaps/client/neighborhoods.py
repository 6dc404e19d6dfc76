"""The subscriptions that a client holds: what it must ask for again when the broker forgot it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from spaps.client.answers import Answer
from spaps.client.errors import (
    ClientUseError,
    NeighborhoodRefusedError,
    RefusedError,
    SubscribeRefusedError,
)
from spaps.client.protocol import (
    MAX_DESCRIPTOR_BYTES,
    MAX_PEID,
    NEIGHBORHOOD,
    NEIGHBORHOOD_REFUSED,
    NSID,
)


@runtime_checkable
class WritesJson(Protocol):
    """An object that can write itself as a JSON descriptor, such as the server's Neighborhood."""

    def to_json(self) -> str:
        """Return the descriptor as JSON text."""


# What may be given for a neighborhood: JSON text or notation, the JSON object, or an object with
# a method that writes it.
AnyNeighborhood: TypeAlias = str | Mapping[str, Any] | WritesJson


@dataclass(frozen=True, slots=True)
class Request:
    """One subscription as it is asked for; without a descriptor it is a plain one."""

    topic: str
    qos: int
    descriptor: str | None = None
    nsid: int | None = None

    def user_properties(self) -> list[tuple[str, str]]:
        """What SUBSCRIBE carries beside the topic filter."""
        pairs: list[tuple[str, str]] = []
        if self.descriptor is not None:
            pairs.append((NEIGHBORHOOD, self.descriptor))
        if self.nsid is not None:
            pairs.append((NSID, str(self.nsid)))
        return pairs

    def __str__(self) -> str:
        number = f" as nsid {self.nsid}" if self.nsid is not None else ""
        kind = "" if self.descriptor is None else " with a neighborhood"
        return f"subscription to {self.topic!r}{kind}{number}"


def written(neighborhood: AnyNeighborhood) -> str:
    """Return the descriptor as it travels. The broker reads it, and refuses what is wrong in it.

    Only what no MQTT packet can carry is an error here.
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
        return json.dumps(
            neighborhood,
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
            default=_plain_object,
        )
    if isinstance(neighborhood, WritesJson):
        return neighborhood.to_json()
    kind = type(neighborhood).__name__
    raise ClientUseError(f"a neighborhood is JSON, notation, a dict or a Neighborhood, not {kind}")


def _plain_object(value: object) -> dict[Any, Any]:
    """Return a mapping that is no dict as one; json asks for what it cannot write itself."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def refusal_of(request: Request, answer: Answer) -> RefusedError | None:
    """Return the error for a request that is refused, None when it is granted."""
    is_about_neighborhood = (
        request.descriptor is not None and answer.code.value == NEIGHBORHOOD_REFUSED
    )
    kind = NeighborhoodRefusedError if is_about_neighborhood else SubscribeRefusedError
    return answer.refusal(kind, str(request))


def checked_nsid(nsid: int | None) -> int | None:
    """The nsid that a caller has chosen."""
    if nsid is not None and (isinstance(nsid, bool) or not 0 <= nsid <= MAX_PEID):
        raise ClientUseError(f"an nsid is an integer from 0 to 2^63-1, not {str(nsid)[:40]!r}")
    return nsid


class HeldSubscriptions:
    """What the broker has granted and the caller has not given back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._neighborhoods: dict[int, Request] = {}
        self._warnings: dict[int, tuple[str, ...]] = {}
        self._plain: dict[str, Request] = {}

    def add(self, request: Request, warnings: tuple[str, ...] = ()) -> None:
        """Granted; an nsid that is used again stands for the new one alone."""
        with self._lock:
            if request.nsid is None:
                self._plain[request.topic] = request
            else:
                self._neighborhoods[request.nsid] = request
                self._warnings[request.nsid] = warnings

    def all(self) -> list[Request]:
        """Everything to ask for again, in the order in which it was granted."""
        with self._lock:
            return [*self._plain.values(), *self._neighborhoods.values()]

    def neighborhoods(self) -> dict[int, Request]:
        """The neighborhoods by their nsids."""
        with self._lock:
            return dict(self._neighborhoods)

    def warnings(self, nsid: int) -> tuple[str, ...]:
        """What the broker remarked when it granted this neighborhood."""
        with self._lock:
            return self._warnings.get(nsid, ())

    def remove(self, nsid: int) -> None:
        """One neighborhood is given back."""
        with self._lock:
            self._neighborhoods.pop(nsid, None)
            self._warnings.pop(nsid, None)

    def remove_topic(self, topic: str) -> None:
        """Everything under a filter is given back: that is what UNSUBSCRIBE without nsid means."""
        with self._lock:
            self._plain.pop(topic, None)
            for nsid in [n for n, one in self._neighborhoods.items() if one.topic == topic]:
                del self._neighborhoods[nsid]
                self._warnings.pop(nsid, None)
