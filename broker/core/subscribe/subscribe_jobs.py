"""What a SUBSCRIBE or UNSUBSCRIBE asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import mqtt5

from broker.codec.fields import ParsedFilter
from broker.codec.reason_codes import ReasonCode
from broker.core.subscribe.subscription import SubscriptionKey
from schemas.language.limits import MAX_PEID
from schemas.mqtt_names import NSID

if TYPE_CHECKING:
    from broker.core.retained.retained_delivery import RetainedBacklog

MAX_NSID: Final = MAX_PEID


class SpatialPropertyError(ValueError):
    """User properties of SUBSCRIBE or UNSUBSCRIBE that are malformed; the text says why."""


@dataclass(slots=True, eq=False)
class FilterRequest:
    """One topic filter of a SUBSCRIBE; ``code`` is None as long as it is not refused."""

    text: str
    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    parsed: ParsedFilter | None = None
    code: ReasonCode | None = None
    nsid: int | None = None
    # The descriptor that the client sent, or ``@NAME``.
    neighborhood: str | None = None
    # The name of a named neighborhood.
    name: str | None = None
    # What is kept instead of what the client sent, once that is known.
    kept_descriptor: str | None = None

    @property
    def key(self) -> SubscriptionKey:
        """The key of its subscription among those of the client."""
        return self.text if self.nsid is None else self.nsid

    @property
    def descriptor(self) -> str | None:
        """The descriptor of its neighborhood, as far as it is known."""
        return self.neighborhood if self.kept_descriptor is None else self.kept_descriptor


@dataclass(slots=True, eq=False)
class SubscribeJob:
    """A SUBSCRIBE until its SUBACK."""

    packet_id: int
    requests: list[FilterRequest]
    identifier: int | None
    user_properties: list[tuple[str, str]]
    # Neighborhoods that are still to be resolved, each for all of its filters.
    unresolved: list[str] = field(default_factory=list)
    # Retained messages that are to be sent after SUBACK.
    backlogs: list[RetainedBacklog] = field(default_factory=list)
    # Verdicts that are still to come.
    undecided: int = 0
    # Why something was refused; the first reason goes into SUBACK.
    text: str | None = None
    # About what was asked for and found, for the client.
    warnings: list[str] = field(default_factory=list)
    # About what it takes in memory.
    bytes: int = 0

    @classmethod
    def of(cls, packet: mqtt5.SubscribePacket) -> SubscribeJob:
        """Return the job of a packet."""
        requests = [
            FilterRequest(
                asked.pattern,
                int(asked.max_qos),
                asked.no_local,
                asked.retain_as_published,
                int(asked.retain_handling),
            )
            for asked in packet.topic_filters
        ]
        return cls(packet.packet_id, requests, packet.subscription_id, packet.user_properties)

    def refuse(self, request: FilterRequest, code: ReasonCode, text: str | None = None) -> None:
        """Note that a filter is not subscribed to."""
        request.code = code
        self.text = self.text or text

    def refuse_all(self, code: ReasonCode, text: str | None) -> None:
        """Note that none of the filters that were not refused yet is subscribed to."""
        for request in self.accepted:
            self.refuse(request, code, text)

    @property
    def accepted(self) -> list[FilterRequest]:
        """The filters that are not refused so far."""
        return [request for request in self.requests if request.code is None]

    def accepted_with(self, neighborhood: str | None) -> list[FilterRequest]:
        """Return those of them that have this neighborhood, or none."""
        return [request for request in self.accepted if request.neighborhood == neighborhood]


@dataclass(slots=True, eq=False)
class UnsubscribeJob:
    """An UNSUBSCRIBE until its UNSUBACK."""

    packet_id: int
    filters: list[str]
    user_properties: list[tuple[str, str]] = field(default_factory=list)
    bytes: int = 0


QueuedJob: TypeAlias = SubscribeJob | UnsubscribeJob


def nsids_of(properties: list[tuple[str, str]]) -> list[int]:
    """Return the nsids that the client names, in order."""
    nsids: list[int] = []
    for name, value in properties:
        if name != NSID:
            continue
        if not (value.isascii() and value.isdigit()) or len(value) > 19 or int(value) > MAX_NSID:
            raise SpatialPropertyError(f"nsid must be a decimal integer from 0 to {MAX_NSID}")
        nsids.append(int(value))
    if len(set(nsids)) != len(nsids):
        raise SpatialPropertyError("an nsid is named twice")
    return nsids
