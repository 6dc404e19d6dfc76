"""What a SUBSCRIBE or UNSUBSCRIBE asks for, and the checks that need no answer from outside."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

import mqtt5

from broker.codec.fields import FilterError, ParsedFilter, parse_filter
from broker.codec.reason_codes import ReasonCode
from broker.core.core_state import CoreState
from broker.core.counters import Refusal
from broker.core.sessions.session import Session
from broker.core.subscribe.subscription import SubscriptionKey
from broker.core.subscribe.subscription_index import subscription_bytes
from schemas.language.limits import MAX_PEID
from schemas.mqtt_names import NEIGHBORHOOD, NSID
from schemas.near_names import name_warnings

MAX_NSID: Final = MAX_PEID
NO_MORE: Final = "subscriptions of this user or address take all the memory that it may have"


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

    @property
    def key(self) -> SubscriptionKey:
        """The key of its subscription among those of the client."""
        return self.text if self.nsid is None else self.nsid


@dataclass(slots=True, eq=False)
class SubscribeJob:
    """A SUBSCRIBE until its SUBACK."""

    packet_id: int
    requests: list[FilterRequest]
    identifier: int | None
    user_properties: list[tuple[str, str]]
    descriptor: str | None = None
    # Verdicts that are still to come.
    undecided: int = 0
    # Why something was refused; the first reason goes into SUBACK.
    text: str | None = None
    # About what was asked for, for the client.
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


def check_subscribe(state: CoreState, session: Session, job: SubscribeJob) -> None:
    """Read the filters and the neighborhood; refuse what cannot be served."""
    for request in job.requests:
        try:
            request.parsed = parse_filter(request.text, state.limits.topic_levels)
        except FilterError as error:
            job.refuse(request, ReasonCode.TOPIC_FILTER_INVALID, str(error))
    try:
        _read_properties(session, job)
    except SpatialPropertyError as error:
        job.refuse_all(ReasonCode.TOPIC_FILTER_INVALID, str(error))
    if job.descriptor is not None and not state.memberships.serves_neighborhoods:
        code = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
        job.refuse_all(code, "this broker serves no neighborhoods")
    job.warnings += name_warnings(name for name, _ in job.user_properties)
    _check_limits(state, session, job)


def _read_properties(session: Session, job: SubscribeJob) -> None:
    descriptors = [value for name, value in job.user_properties if name == NEIGHBORHOOD]
    if len(descriptors) > 1:
        raise SpatialPropertyError("one SUBSCRIBE has one neighborhood, not more")
    job.descriptor = descriptors[0] if descriptors else None
    nsids = nsids_of(job.user_properties)
    if job.descriptor is None:
        if nsids:
            raise SpatialPropertyError("an nsid belongs to a neighborhood, but there is none")
        return
    if not nsids:
        nsids = _free_nsids(session, len(job.requests))
    if len(nsids) != len(job.requests):
        raise SpatialPropertyError("each topic filter needs an nsid of its own")
    for request, nsid in zip(job.requests, nsids, strict=True):
        request.nsid = nsid


def _free_nsids(session: Session, count: int) -> list[int]:
    """Return numbers that the session does not use yet."""
    free: list[int] = []
    while len(free) < count:
        if session.next_nsid not in session.subscriptions:
            free.append(session.next_nsid)
        session.next_nsid += 1
    return free


def _check_limits(state: CoreState, session: Session, job: SubscribeJob) -> None:
    """Refuse the filters for which there is no room beside those before them."""
    limits = state.limits
    held, spatial, size = len(session.subscriptions), session.neighborhoods, 0
    for request in job.accepted:
        more = _more_bytes(session, job, request)
        is_new = request.key not in session.subscriptions
        if not is_new and more <= 0:
            continue
        is_spatial = request.nsid is not None
        if is_new and held >= limits.subscriptions:
            text = f"more than {limits.subscriptions} subscriptions of one client"
            _refuse(state, job, request, Refusal.SUBSCRIPTIONS, text)
        elif is_new and is_spatial and spatial >= limits.neighborhoods:
            text = f"more than {limits.neighborhoods} neighborhoods of one client"
            _refuse(state, job, request, Refusal.NEIGHBORHOODS, text)
        elif session.subscription_bytes + size + more > limits.subscription_bytes:
            text = f"subscriptions of one client beyond {limits.subscription_bytes} bytes"
            _refuse(state, job, request, Refusal.SUBSCRIPTION_BYTES, text)
        elif not session.subscription_account.has_room(size + more):
            _refuse(state, job, request, Refusal.TOTAL_SUBSCRIPTION_BYTES, NO_MORE)
        else:
            held, size = held + is_new, size + more
            spatial += is_new and is_spatial


def is_beyond_share(
    state: CoreState, session: Session, job: SubscribeJob, request: FilterRequest
) -> bool:
    """Refuse a filter that there is no room for any more; return whether that is so."""
    size = _more_bytes(session, job, request)
    if size <= 0 or session.subscription_account.has_room(size):
        return False
    _refuse(state, job, request, Refusal.TOTAL_SUBSCRIPTION_BYTES, NO_MORE)
    return True


def _more_bytes(session: Session, job: SubscribeJob, request: FilterRequest) -> int:
    """Return the bytes that a filter takes beyond the subscription that it would replace."""
    before = session.subscriptions.get(request.key)
    size = subscription_bytes(request.text, job.descriptor)
    return size if before is None else size - before.bytes


def _refuse(
    state: CoreState, job: SubscribeJob, request: FilterRequest, limit: Refusal, text: str
) -> None:
    """Refuse a filter because a limit is reached, and count it."""
    state.counters.refusals[limit] += 1
    job.refuse(request, ReasonCode.QUOTA_EXCEEDED, text)


def check_pairs(
    state: CoreState, session: Session, requests: list[FilterRequest], members: int
) -> str | None:
    """Return why a neighborhood of so many members cannot be entered for each of the filters.

    A client may always ask again for what it holds already, also when it is over its quota.
    """
    new = members * len(requests)
    existing = [session.subscriptions.get(request.nsid or 0) for request in requests]
    more = new - sum(one.pairs for one in existing if one is not None)
    if more <= 0:
        return None
    limit = state.limits.pairs
    if session.pairs + more > limit:
        state.counters.refusals[Refusal.PAIRS] += 1
        held = f"hold {session.pairs} pairs of entity and subscription"
        return f"this client's neighborhoods {held}; with these {new} there are more than {limit}"
    # The new pairs are entered before the replaced ones leave.
    if not session.pair_account.has_room(new):
        state.counters.refusals[Refusal.TOTAL_PAIRS] += 1
        return f"no room for {new} more pairs of entity and subscription of this user or address"
    return None
