"""What can be said about a SUBSCRIBE at once: its filters, its user properties, the limits."""

from __future__ import annotations

from typing import Final

from broker.codec.framing import count_filters
from broker.codec.packet_writer import SUBACK, UNSUBACK, refused_filters
from broker.codec.reason_codes import ReasonCode
from broker.codec.topics import FilterError, parse_filter
from broker.core.core_state import CoreState
from broker.core.counters import WORK_OF_A_FILTER, WORK_OF_A_SUBSCRIBE, Refusal
from broker.core.limits import BrokerLimits
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.subscribe.subscribe_queue import (
    FilterRequest,
    SpatialPropertyError,
    SubscribeJob,
    neighborhood_of,
    nsids_of,
)
from broker.core.subscribe.subscription_index import subscription_bytes

NO_MORE: Final = "subscriptions of this user or address take all the memory that it may have"


def check_subscribe(state: CoreState, session: Session, job: SubscribeJob) -> None:
    """Read the filters and the neighborhood; refuse what cannot be served."""
    limits = state.limits
    for request in job.requests:
        try:
            request.parsed = parse_filter(request.text, limits.topic_levels)
        except FilterError as error:
            job.refuse(request, ReasonCode.TOPIC_FILTER_INVALID, str(error))
    try:
        _read_properties(session, job, is_served=state.memberships.serves_neighborhoods)
    except SpatialPropertyError as error:
        job.refuse_all(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, str(error))
    _check_limits(state, session, job)


def _check_limits(state: CoreState, session: Session, job: SubscribeJob) -> None:
    """Refuse the filters for which there is no room beside those before them."""
    limits = state.limits
    held, spatial, size = len(session.subscriptions), session.neighborhoods, 0
    for request in job.accepted:
        key = request.text if request.nsid is None else request.nsid
        more = _more_bytes(session, job, request)
        is_new = key not in session.subscriptions
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
    """Return the bytes that a filter takes beyond what it would stand in the place of."""
    key = request.text if request.nsid is None else request.nsid
    before = session.subscriptions.get(key)
    size = subscription_bytes(request.text, job.descriptor)
    return size if before is None else size - before.bytes


def _refuse(
    state: CoreState, job: SubscribeJob, request: FilterRequest, limit: Refusal, text: str
) -> None:
    """Refuse a filter because a limit is reached, and count it."""
    state.counters.refusals[limit] += 1
    job.refuse(request, ReasonCode.QUOTA_EXCEEDED, text)


def _read_properties(session: Session, job: SubscribeJob, *, is_served: bool) -> None:
    job.descriptor = neighborhood_of(job.user_properties)
    nsids = nsids_of(job.user_properties)
    if job.descriptor is None:
        if nsids:
            raise SpatialPropertyError("an nsid belongs to a neighborhood, but there is none")
        return
    if not is_served:
        raise SpatialPropertyError("this broker serves no neighborhoods")
    if not nsids:
        nsids = _free_nsids(session, len(job.requests))
    if len(nsids) != len(job.requests):
        raise SpatialPropertyError("each topic filter needs an nsid of its own")
    for request, nsid in zip(job.requests, nsids, strict=True):
        request.nsid = nsid


def _free_nsids(session: Session, count: int) -> list[int]:
    """Numbers that the session does not use yet."""
    free: list[int] = []
    while len(free) < count:
        if session.next_nsid not in session.subscriptions:
            free.append(session.next_nsid)
        session.next_nsid += 1
    return free


def is_queue_full(connection: Connection, limits: BrokerLimits) -> bool:
    """Return whether too many packets of the client wait already, or too many bytes of them."""
    subscribe_queue = connection.subscribe_queue
    return len(subscribe_queue) >= limits.waiting_subscribes or (
        len(subscribe_queue) > 1
        and sum([job.bytes for job in subscribe_queue]) > limits.packet_bytes
    )


def refuse_too_many_filters(
    state: CoreState, connection: Connection, data: bytes, body: int, end: int, answer: int
) -> bool:
    """Answer a packet that has more filters than allowed; return whether it has.

    ``answer`` is the kind of packet that answers it. UNSUBACK has no code for a quota: every
    filter gets "implementation specific error".
    """
    most = state.limits.filters_per_packet
    packet_id, count = count_filters(data, body, end, option_bytes=answer == SUBACK)
    state.counters.work += WORK_OF_A_SUBSCRIBE + min(count, most) * WORK_OF_A_FILTER
    if count <= most:
        return False
    # Only their lengths were looked at.
    state.counters.work += count
    state.counters.refusals[Refusal.FILTERS_PER_PACKET] += count
    code = ReasonCode.QUOTA_EXCEEDED
    if answer == UNSUBACK:
        code = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
    text = f"{count} topic filters in one packet; at most {most} are accepted"
    packet = plain = refused_filters(answer, packet_id, code, count, None)
    if connection.wants_reasons:
        packet = refused_filters(answer, packet_id, code, count, text)
    limit = connection.maximum_packet_size
    if limit is not None and len(packet) > limit:
        packet = plain
    state.output_gate.promise(connection, packet, state.journal.position)
    return True
