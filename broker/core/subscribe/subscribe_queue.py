"""The lane of a connection: its SUBSCRIBE and UNSUBSCRIBE packets, one after the other.

A neighborhood may take a while to resolve. What the client asks for after it must not
overtake it, or an UNSUBSCRIBE would come too early to remove what it is about.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import mqtt5

from broker.codec.reason_codes import ReasonCode
from broker.codec.topics import ParsedFilter
from schemas.language.limits import MAX_PEID
from schemas.mqtt_names import NEIGHBORHOOD, NSID

MAX_NSID = MAX_PEID
# What a topic filter that waits takes in memory beside its text.
FILTER_BYTES = 300


class SpatialPropertyError(ValueError):
    """User properties of SUBSCRIBE or UNSUBSCRIBE that make no sense; the text says why."""


@dataclass(slots=True, eq=False)
class FilterRequest:
    """One topic filter of a SUBSCRIBE; ``code`` is None while nothing speaks against it."""

    text: str
    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    parsed: ParsedFilter | None = None
    code: ReasonCode | None = None
    nsid: int | None = None


@dataclass(slots=True, eq=False)
class SubscribeJob:
    """A SUBSCRIBE on its way to SUBACK."""

    packet_id: int
    requests: list[FilterRequest]
    identifier: int | None
    user_properties: list[tuple[str, str]]
    descriptor: str | None = None
    # Verdicts that are still to come.
    undecided: int = 0
    # Why something was refused; the first reason is the one that is told.
    text: str | None = None
    # What it takes in memory, about.
    bytes: int = 0

    def refuse(self, request: FilterRequest, code: ReasonCode, text: str | None = None) -> None:
        """Note that a filter is not subscribed to."""
        request.code = code
        self.text = self.text or text

    def refuse_all(self, code: ReasonCode, text: str | None) -> None:
        """Note that none of the filters that were still possible is subscribed to."""
        for request in self.accepted:
            self.refuse(request, code, text)

    @property
    def accepted(self) -> list[FilterRequest]:
        """The filters that nothing speaks against."""
        return [request for request in self.requests if request.code is None]


@dataclass(slots=True, eq=False)
class UnsubscribeJob:
    """An UNSUBSCRIBE on its way to UNSUBACK."""

    packet_id: int
    filters: list[str]
    user_properties: list[tuple[str, str]] = field(default_factory=list)
    bytes: int = 0


LaneJob = SubscribeJob | UnsubscribeJob


def subscribe_job(packet: mqtt5.SubscribePacket) -> SubscribeJob:
    """The packet as work to do."""
    return SubscribeJob(
        packet.packet_id,
        [
            FilterRequest(
                asked.pattern,
                int(asked.max_qos),
                asked.no_local,
                asked.retain_as_published,
                int(asked.retain_handling),
            )
            for asked in packet.topic_filters
        ],
        packet.subscription_id,
        packet.user_properties,
    )


def neighborhood_of(properties: list[tuple[str, str]]) -> str | None:
    """The descriptor of a SUBSCRIBE, if it has one."""
    descriptors = [value for name, value in properties if name == NEIGHBORHOOD]
    if len(descriptors) > 1:
        raise SpatialPropertyError("one SUBSCRIBE has one neighborhood, not more")
    return descriptors[0] if descriptors else None


def nsids_of(properties: list[tuple[str, str]]) -> list[int]:
    """The nsids that the client names, in order."""
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
