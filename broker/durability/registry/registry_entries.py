"""What a subscription in force looks like in the registry of all subscriptions."""

from __future__ import annotations

import logging

from broker.core.subscribe.subscription import Subscription
from schemas.errors import SpapsError
from schemas.language.neighborhood import neighborhood_hash
from schemas.language.notation import read_neighborhood
from schemas.subscription import Registration

log = logging.getLogger(__name__)


def registration_of(broker: str, subscription: Subscription) -> Registration | None:
    """Return the registration of a subscription in force, as it was made when it was new."""
    terms, client_id = subscription.terms, subscription.session.name
    if terms.descriptor is None or terms.nsid is None:
        return None
    try:
        neighborhood = read_neighborhood(terms.descriptor)
        is_json = terms.descriptor.lstrip().startswith("{")
        text = terms.descriptor if is_json else neighborhood.to_json()
    except SpapsError as error:
        log.error("a neighborhood of %r is not understood any more: %s", client_id, error)  # noqa: TRY400
        return None
    return Registration(
        client_id, terms.nsid, terms.topic_filter, text, neighborhood_hash(neighborhood), broker
    )
