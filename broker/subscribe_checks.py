"""What can be said about a SUBSCRIBE at once: its filters, its user properties, the limits."""

from __future__ import annotations

from broker.codec.reason_codes import ReasonCode
from broker.core_state import CoreState
from broker.lane import SpatialPropertyError, SubscribeJob, neighborhood_of, nsids_of
from broker.session import Session
from broker.topics import FilterError, parse_filter


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
    held, spatial = len(session.subscriptions), session.neighborhoods
    for request in job.accepted:
        key = request.text if request.nsid is None else request.nsid
        if key in session.subscriptions:
            continue
        held += 1
        spatial += request.nsid is not None
        if held > limits.subscriptions or spatial > limits.neighborhoods:
            job.refuse(request, ReasonCode.QUOTA_EXCEEDED, "too many subscriptions")


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
