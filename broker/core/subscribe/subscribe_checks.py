"""The checks of a SUBSCRIBE that need no answer from outside: filters, neighborhoods, limits."""

from __future__ import annotations

from typing import Final

from broker.codec.fields import FilterError
from broker.codec.reason_codes import ReasonCode
from broker.core.core_state import CoreState
from broker.core.counters import Refusal
from broker.core.sessions.session import Session
from broker.core.subscribe.named_subscriptions import names_neighborhood, parse_subscription
from broker.core.subscribe.subscribe_jobs import (
    FilterRequest,
    SpatialPropertyError,
    SubscribeJob,
    nsids_of,
)
from broker.core.subscribe.subscription_writer import subscription_bytes
from broker.core.verdicts import denial_text
from schemas.errors import DescriptorError
from schemas.mqtt_names import NEIGHBORHOOD, name_warnings
from schemas.named_neighborhood import NAME_SIGN, name_in_property

NO_MORE: Final = "subscriptions of this user or address take all the memory that it may have"


def check_subscribe(state: CoreState, session: Session, job: SubscribeJob) -> None:
    """Read the filters and the neighborhood; refuse what cannot be served."""
    for request in job.requests:
        try:
            request.parsed, request.name = parse_subscription(
                request.text, state.limits.topic_levels
            )
        except FilterError as error:
            job.refuse(request, ReasonCode.TOPIC_FILTER_INVALID, str(error))
    try:
        _read_properties(session, job)
    except SpatialPropertyError as error:
        job.refuse_all(ReasonCode.TOPIC_FILTER_INVALID, str(error))
    for request in job.accepted:
        if request.neighborhood is None:
            continue
        if not state.memberships.serves_neighborhoods:
            text = "this broker serves no neighborhoods"
            job.refuse(request, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, text)
        elif request.name is not None:
            verdict = state.access.may_use(session.identity, request.name)
            if verdict.is_error:
                text = denial_text(verdict, "use the neighborhood", request.name)
                job.refuse(request, verdict, text)
    job.warnings += name_warnings(name for name, _ in job.user_properties)
    _check_limits(state, session, job)


def _read_properties(session: Session, job: SubscribeJob) -> None:
    """Give each filter its neighborhood, if it has one, and its nsid."""
    _read_neighborhoods(job)
    nsids = nsids_of(job.user_properties)
    spatial = [request for request in job.requests if request.neighborhood is not None]
    if not spatial:
        if nsids:
            raise SpatialPropertyError("an nsid belongs to a neighborhood, but there is none")
        return
    if not nsids:
        nsids = _free_nsids(session, spatial)
    if len(nsids) != len(spatial):
        raise SpatialPropertyError("each topic filter needs an nsid of its own")
    for request, nsid in zip(spatial, nsids, strict=True):
        request.nsid = nsid


def _read_neighborhoods(job: SubscribeJob) -> None:
    descriptors = [value for name, value in job.user_properties if name == NEIGHBORHOOD]
    if len(descriptors) > 1:
        raise SpatialPropertyError("one SUBSCRIBE has one neighborhood, not more")
    try:
        name = name_in_property(descriptors[0]) if descriptors else None
    except DescriptorError as error:
        raise SpatialPropertyError(str(error)) from None
    for request in job.requests:
        if request.name is not None:
            if descriptors:
                raise SpatialPropertyError(
                    f"the filter {request.text!r} names a neighborhood, and the property "
                    f"{NEIGHBORHOOD} gives another: leave out one of them"
                )
            request.neighborhood = NAME_SIGN + request.name
        elif descriptors:
            request.neighborhood, request.name = descriptors[0], name


def _free_nsids(session: Session, requests: list[FilterRequest]) -> list[int]:
    """Return numbers that the session does not use yet.

    A filter that names its neighborhood identifies its subscription, as any other filter does:
    the same filter again has the same number.
    """
    free: list[int] = []
    by_text: dict[str, int] = {}
    for request in requests:
        known = _known_nsid(session, request)
        if known is None:
            known = by_text.get(request.text) if names_neighborhood(request.text) else None
        if known is None:
            while session.next_nsid in session.subscriptions:
                session.next_nsid += 1
            known = session.next_nsid
            session.next_nsid += 1
        by_text[request.text] = known
        free.append(known)
    return free


def _known_nsid(session: Session, request: FilterRequest) -> int | None:
    """Return the number under which the session holds a filter that names its neighborhood."""
    if names_neighborhood(request.text):
        for subscription in session.by_filter.get(request.text, ()):
            return subscription.terms.nsid
    return None


def _check_limits(state: CoreState, session: Session, job: SubscribeJob) -> None:
    """Refuse the filters for which there is no room beside those before them."""
    limits = state.limits
    held, spatial, size = len(session.subscriptions), session.neighborhoods, 0
    for request in job.accepted:
        more = _more_bytes(session, request)
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
    size = _more_bytes(session, request)
    if size <= 0 or session.subscription_account.has_room(size):
        return False
    _refuse(state, job, request, Refusal.TOTAL_SUBSCRIPTION_BYTES, NO_MORE)
    return True


def _more_bytes(session: Session, request: FilterRequest) -> int:
    """Return the bytes that a filter takes beyond the subscription that it would replace."""
    before = session.subscriptions.get(request.key)
    size = subscription_bytes(request.text, request.descriptor)
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
