"""The subscriptions that a client holds: what it must ask for again when the broker forgot it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from schemas.language.descriptor_json import descriptor_json, parse_descriptor
from schemas.language.limits import MAX_PEID
from schemas.language.neighborhood import Neighborhood
from schemas.language.neighborhood_text import read_neighborhood
from schemas.user_properties import NEIGHBORHOOD, NSID
from spaps.client.errors import ClientUseError

# What may be given for a neighborhood: JSON text or notation, the JSON object, or the schema.
AnyNeighborhood: TypeAlias = str | Mapping[str, Any] | Neighborhood


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
    """The descriptor as it travels. A mistake in it is an error here, before anything is sent."""
    if isinstance(neighborhood, Neighborhood):
        return descriptor_json(neighborhood)
    if isinstance(neighborhood, str):
        return descriptor_json(read_neighborhood(neighborhood))
    if isinstance(neighborhood, Mapping):
        return descriptor_json(parse_descriptor(neighborhood))
    kind = type(neighborhood).__name__
    raise ClientUseError(f"a neighborhood is JSON, notation, a dict or a Neighborhood, not {kind}")


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
