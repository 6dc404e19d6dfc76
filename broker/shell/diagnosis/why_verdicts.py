"""Verdicts about one subscription, in words and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from broker.core.audience import Fate
from broker.core.subscribe.subscription import Subscription
from spatial_udfs.exact.stage_findings import StageFinding

# Verdicts beside those of ``Fate``, which are about subscriptions that match.
OUTSIDE: Final = "outside"
HIDDEN: Final = "stage not visible"
NO_RIGHT: Final = "no right"
UNKNOWN_ENTITY: Final = "unknown entity"
NO_ENTITY: Final = "no entity"

FATE_TEXTS: Final = {
    Fate.DELIVERED: "delivered",
    Fate.QUEUED: "kept in the queue of the session until the client takes it",
    Fate.AWAY: "not delivered: the client is away, and QoS 0 is not kept for it",
    Fate.SLOW: "not delivered: the client does not read, and QoS 0 is not kept for it",
    Fate.QUEUE_FULL: "not delivered: the queue of the session is full",
}


def row_of(subscription: Subscription) -> dict[str, Any]:
    """Return what identifies a subscription: client, user, filter, nsid, name, QoS, session."""
    terms, session = subscription.terms, subscription.session
    return {
        "client": session.client_id,
        "user": session.identity.user_name,
        "filter": terms.topic_filter,
        "nsid": terms.nsid,
        "name": terms.name,
        "qos": terms.qos,
        "session": "away" if session.connection is None else "connected",
    }


def fate_fields(
    subscription: Subscription, fate: Fate, findings: Sequence[StageFinding]
) -> dict[str, Any]:
    """Return the verdict about a subscription that matches."""
    text = FATE_TEXTS[fate]
    shown = [one.number for one in findings if one.is_member and one.is_visible]
    if shown:
        text += f" ({stages_text(shown)})"
    if subscription.group is not None:
        text += f"; one member of group {subscription.group.share_name!a} gets it"
    if subscription.no_local:
        text += "; not if this client publishes it itself (no-local)"
    return {"verdict": fate.value, "text": text, "stages": [_stage_fields(one) for one in findings]}


def outside_fields(findings: Sequence[StageFinding]) -> dict[str, Any]:
    """Return the verdict about a neighborhood that does not hold the entity."""
    stages = [_stage_fields(one) for one in findings]
    hidden = [one.number for one in findings if one.is_member and not one.is_visible]
    if any(one.is_member and one.is_visible for one in findings):
        text = "its members in force lack the entity, though it is resolved as one now"
        return {"verdict": OUTSIDE, "text": text, "stages": stages}
    if hidden:
        text = f"in {stages_text(hidden)}, which {_is_or_are(hidden)} not visible"
        return {"verdict": HIDDEN, "text": text, "stages": stages}
    nearest = nearest_of(findings)
    if nearest is None or nearest.distance is None:
        return {"verdict": OUTSIDE, "text": "the neighborhood is empty", "stages": stages}
    text = f"outside, {metres(nearest.distance)} from the nearest member of stage {nearest.number}"
    if not nearest.is_visible:
        text += " (not visible; the visible stages are empty)"
    excluded = [one.number for one in findings if one.is_reference]
    if excluded:
        text += f"; it is a reference of {stages_text(excluded)}, and so excluded there"
    if not any(one.is_selectable for one in findings):
        text += "; no stage selects its categories"
    return {
        "verdict": OUTSIDE,
        "text": text,
        "distance": nearest.distance,
        "nearestStage": nearest.number,
        "stages": stages,
    }


def nearest_of(findings: Sequence[StageFinding]) -> StageFinding | None:
    """Return the visible stage that comes nearest, or another one when the visible are empty."""
    near = [(not one.is_visible, one.distance, one) for one in findings if one.distance is not None]
    return min(near, key=lambda entry: entry[:2])[2] if near else None


def stages_text(numbers: Sequence[int]) -> str:
    """Return stage numbers in words."""
    return ("stage " if len(numbers) == 1 else "stages ") + ", ".join(map(str, numbers))


def metres(distance: float) -> str:
    """Return a distance as people write it."""
    return f"{distance:,.0f} m" if distance >= 100 else f"{distance:.3g} m"


def _stage_fields(finding: StageFinding) -> dict[str, Any]:
    return {
        "stage": finding.number,
        "visible": finding.is_visible,
        "member": finding.is_member,
        "reference": finding.is_reference,
        "selectable": finding.is_selectable,
        "distance": finding.distance,
    }


def _is_or_are(numbers: Sequence[int]) -> str:
    return "is" if len(numbers) == 1 else "are"
