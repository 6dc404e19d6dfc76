"""A subscription as a client asks for it, and the checks before it is sent."""

from __future__ import annotations

import json
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
    NEIGHBORHOOD_MALFORMED,
    NEIGHBORHOOD_REFUSED,
    NSID,
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
    """Return a mapping of another type as a dict, for json, which writes dicts alone."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def refusal_of(request: Request, answer: Answer) -> RefusedError | None:
    """Return the error for a request that is refused, None when it is granted."""
    is_about_neighborhood = request.descriptor is not None and answer.code.value in (
        NEIGHBORHOOD_REFUSED,
        NEIGHBORHOOD_MALFORMED,
    )
    kind = NeighborhoodRefusedError if is_about_neighborhood else SubscribeRefusedError
    return answer.refusal(kind, str(request))


def checked_nsid(nsid: int | None) -> int | None:
    """Return the nsid that a caller has chosen, or raise an error when it is none."""
    if nsid is not None and (isinstance(nsid, bool) or not 0 <= nsid <= MAX_PEID):
        raise ClientUseError(f"an nsid is an integer from 0 to 2^63-1, not {str(nsid)[:40]!r}")
    return nsid
