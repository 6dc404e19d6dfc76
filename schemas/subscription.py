"""Subscriptions as registered in Redis, and as lines of a subscription file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from schemas.errors import REPAIR_ADVICE, DescriptorError, RedisLinkError
from schemas.language.descriptor_json import (
    decoded,
    key_written_twice,
    parse_descriptor,
)
from schemas.language.descriptor_rules import shown
from schemas.language.limits import MAX_DESCRIPTOR_BYTES
from schemas.language.neighborhood import Neighborhood
from schemas.membership import DESCRIPTOR, SUB_ID, SUBSCRIPTION_KEYS


@dataclass(frozen=True, slots=True)
class Registration:
    """A subscription without its subId, which the registry gives.

    It never changes: a client that uses its nsid for another neighborhood gets a new subId. So the
    members of a subId on a world version are always the same.
    """

    client_id: str
    nsid: int
    topic_filter: str
    descriptor: str  # JSON text
    neighborhood_hash: str
    # The broker of the subscriber; empty in registrations of earlier releases.
    broker: str = ""
    # The name by which the client asked for the neighborhood, if it did.
    name: str = ""

    def to_json(self) -> str:
        """Return the registration as JSON."""
        content: dict[str, Any] = {
            "clientId": self.client_id,
            "nsid": self.nsid,
            "topicFilter": self.topic_filter,
            "descriptor": self.descriptor,
            "hash": self.neighborhood_hash,
        }
        if self.broker:
            content["broker"] = self.broker
        if self.name:
            content["name"] = self.name
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, sub_id: int, text: str | bytes) -> Registration:
        """Return the registration as read from Redis."""
        try:
            content: dict[str, Any] = json.loads(text)
            return cls(
                content["clientId"],
                content["nsid"],
                content["topicFilter"],
                content["descriptor"],
                content["hash"],
                content.get("broker", ""),
                content.get("name", ""),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise RedisLinkError(
                f"subscription {sub_id} in Redis is broken ({error!r}){REPAIR_ADVICE}"
            ) from error


MAX_SUB_ID: Final = 2**63 - 1
# Lines may have more space than the descriptor, whose own limit is checked apart.
MAX_LINE_BYTES: Final = 4 * MAX_DESCRIPTOR_BYTES


@dataclass(frozen=True, slots=True)
class Subscription:
    """A neighborhood and its subId, which is unique in the whole system."""

    sub_id: int
    neighborhood: Neighborhood


def parse_subscription(line: str) -> Subscription:
    """Return the subscription of a line; DescriptorError says what is wrong with the line."""
    entry = decoded(line, MAX_LINE_BYTES)
    if not isinstance(entry, dict) or sorted(entry) != sorted(SUBSCRIPTION_KEYS):
        keys = " and ".join(SUBSCRIPTION_KEYS)
        raise DescriptorError(f"the line is no subscription; allowed: an object with {keys}")
    twice = key_written_twice(entry)
    if twice is not None:
        raise DescriptorError(f"{twice} is written twice; allowed: each key once")
    sub_id = _sub_id(entry[SUB_ID])
    if not isinstance(entry[DESCRIPTOR], dict):
        raise DescriptorError(f"{DESCRIPTOR} is no object; allowed: an object with refs and stages")
    return Subscription(sub_id, parse_descriptor(entry[DESCRIPTOR]))


def _sub_id(value: Any) -> int:
    """Return the number that an integer or a decimal text is; JavaScript has only the text."""
    number = value
    if isinstance(value, str) and value.isascii() and value.isdigit():
        significant = value.lstrip("0") or "0"
        number = int(significant) if len(significant) <= len(str(MAX_SUB_ID)) else value
    if type(number) is not int or not 0 <= number <= MAX_SUB_ID:
        raise DescriptorError(f"{SUB_ID} is {shown(value)}; allowed: an integer 0 .. 2^63-1")
    return number
