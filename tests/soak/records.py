"""What clients and watchers write down while a soak runs; times are of the monotonic clock.

The checker reads this and nothing else of the run: a log can so be made or damaged by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

REFUSED_FROM = 0x80
NO_SUBSCRIBER = 0x10


@dataclass(slots=True)
class Sent:
    """A message by its publisher: when it was due, when it was sent, what the broker answered."""

    publisher: str
    number: int
    topic: str
    peid: int
    due: float
    sends: list[float] = field(default_factory=list)
    acknowledged: float | None = None
    code: int = 0

    @property
    def name(self) -> str:
        """Its payload."""
        return f"{self.publisher}:{self.number}"


@dataclass(slots=True)
class Received:
    """One copy of a message as a subscriber read it."""

    client: str
    connection: int
    at: float
    name: str
    topic: str
    peid: int | None
    nsids: tuple[int, ...]
    is_repeated: bool = False


@dataclass(slots=True)
class Change:
    """A subscription asked for (``neighborhood``, PLAIN) or given back (None) under an nsid."""

    client: str
    nsid: int
    topic_filter: str
    neighborhood: int | None
    sent: float
    attempts: int = 1
    answered: float | None = None
    code: int = 0

    @property
    def is_refused(self) -> bool:
        """Whether the broker has said no."""
        return self.answered is not None and self.code >= REFUSED_FROM


# In the place of a neighborhood: a plain subscription, which holds every message of its filter.
PLAIN = -1
# The nsid under which such a one is noted; the broker gives none.
PLAIN_NSID = -1


@dataclass(slots=True)
class Reconnect:
    """A client came back; its session must still be there."""

    client: str
    at: float
    session_present: bool


@dataclass(slots=True)
class Sighting:
    """A generation that a broker filters by, or that Redis names, between two looks.

    It was surely not in force before ``may_from`` nor after ``may_until``.
    """

    generation: int
    may_from: float
    first_seen: float
    last_seen: float
    may_until: float


@dataclass(slots=True)
class Event:
    """Something that was done to the system, for people and for excuses."""

    kind: str
    begun: float
    ended: float
    text: str = ""


@dataclass
class Records:
    """Everything of one run."""

    sent: dict[str, Sent] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    reconnects: list[Reconnect] = field(default_factory=list)
    in_broker: list[Sighting] = field(default_factory=list)
    in_redis: list[Sighting] = field(default_factory=list)
    versions: dict[int, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def during(self, kind: str, start: float, end: float) -> bool:
        """Whether something of the kind went on between two times."""
        return any(
            one.kind == kind and one.begun <= end and one.ended >= start for one in self.events
        )


def note_sighting(
    sightings: list[Sighting], generation: int, asked: float, answered: float
) -> bool:
    """One look: the generation was in force at some moment of it; whether it is another one."""
    last = sightings[-1] if sightings else None
    if last is not None and last.generation == generation:
        last.last_seen, last.may_until = asked, float("inf")
        return False
    may_from = float("-inf")
    if last is not None:
        last.may_until = answered
        may_from = last.last_seen
    sightings.append(Sighting(generation, may_from, answered, asked, float("inf")))
    return True


def versions_possible(
    sightings: Iterable[Sighting], versions: dict[int, int], start: float, end: float
) -> list[int]:
    """The world versions that may have been filtered by between two times."""
    return [
        versions[one.generation]
        for one in sightings
        if one.may_from <= end and one.may_until >= start
    ]
