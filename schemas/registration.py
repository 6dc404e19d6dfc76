"""A subscription as it is registered in Redis: who holds it, and what it selects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from schemas.errors import REPAIR_ADVICE, RedisLinkError


@dataclass(frozen=True, slots=True)
class Registration:
    """Everything about a subscription but its subId, which the registry gives.

    It never changes: a client that uses an nsid for something else gets a new subId. So the
    members of a subId on a world version are the same whenever and by whomever it is resolved.
    """

    client_id: str
    nsid: int
    topic_filter: str
    descriptor: str  # JSON text
    neighborhood_hash: str
    # The broker that holds it; empty in what earlier releases registered.
    broker: str = ""

    def to_json(self) -> str:
        """The one text for this registration."""
        content: dict[str, Any] = {
            "clientId": self.client_id,
            "nsid": self.nsid,
            "topicFilter": self.topic_filter,
            "descriptor": self.descriptor,
            "hash": self.neighborhood_hash,
        }
        if self.broker:
            content["broker"] = self.broker
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, sub_id: int, text: str | bytes) -> Registration:
        """The registration as read from Redis."""
        try:
            content: dict[str, Any] = json.loads(text)
            return cls(
                content["clientId"],
                content["nsid"],
                content["topicFilter"],
                content["descriptor"],
                content["hash"],
                content.get("broker", ""),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise RedisLinkError(
                f"subscription {sub_id} in Redis is broken ({error!r}){REPAIR_ADVICE}"
            ) from error
