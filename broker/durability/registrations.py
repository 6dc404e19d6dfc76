"""The registrations of subscriptions: of one that is requested, and of one in force."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from broker.codec.reason_codes import ReasonCode
from broker.core.requests import Resolve
from broker.core.subscribe.subscription import Subscription
from broker.resolver.resolver_requests import NeighborhoodRefusedError, VersionResolution
from schemas.errors import SpapsError
from schemas.language.neighborhood import neighborhood_hash
from schemas.language.notation import read_neighborhood
from schemas.subscription import Registration

log = logging.getLogger(__name__)


def unknown_name(name: str) -> NeighborhoodRefusedError:
    """Return the refusal for a name that no neighborhood has."""
    return NeighborhoodRefusedError(
        ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, f"no neighborhood is named {name!r}"
    )


def registrations_for(
    broker: str, request: Resolve, resolution: VersionResolution
) -> Iterator[Registration]:
    """Yield the registration of each filter of a request."""
    for topic_filter, nsid in zip(request.filters, request.nsids, strict=True):
        yield Registration(
            request.client.session_name,
            nsid,
            topic_filter,
            resolution.descriptor,
            resolution.neighborhood_hash,
            broker,
            request.name or "",
        )


def users_by_name(subscriptions: Iterable[Subscription]) -> dict[str, list[int]]:
    """Return the subIds of the subscriptions to named neighborhoods, by name."""
    found: dict[str, list[int]] = {}
    for subscription in subscriptions:
        name, sub_id = subscription.terms.name, subscription.terms.sub_id
        if name is not None and sub_id is not None:
            found.setdefault(name, []).append(sub_id)
    return found


def registration_of(broker: str, subscription: Subscription) -> Registration | None:
    """Return the registration of a subscription in force, equal to the original one."""
    terms, client_id = subscription.terms, subscription.session.name
    if terms.descriptor is None or terms.nsid is None:
        return None
    try:
        neighborhood = read_neighborhood(terms.descriptor)
        is_json = terms.descriptor.lstrip().startswith("{")
        text = terms.descriptor if is_json else neighborhood.to_json()
    except SpapsError as error:
        log.error("a neighborhood of %r is no longer valid: %s", client_id, error)  # noqa: TRY400
        return None
    digest = neighborhood_hash(neighborhood)
    return Registration(
        client_id, terms.nsid, terms.topic_filter, text, digest, broker, terms.name or ""
    )
