"""Lines of a subscription file."""

from __future__ import annotations

import json

from schemas.membership import DESCRIPTOR, SUB_ID
from schemas.subscription import Subscription


def subscription_line(subscription: Subscription) -> str:
    """Return the line of a subscription file, without the line end."""
    entry = {SUB_ID: subscription.sub_id, DESCRIPTOR: subscription.neighborhood.to_object()}
    return json.dumps(entry, ensure_ascii=False)
