"""One line of a subscription file: ``{"subId": 1, "descriptor": {…}}``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from schemas.errors import DescriptorError
from schemas.language.descriptor_json import descriptor_object, parse_descriptor
from schemas.language.limits import MAX_DESCRIPTOR_BYTES
from schemas.language.neighborhood import Neighborhood
from schemas.language.strict_json import decoded, key_written_twice
from schemas.membership import DESCRIPTOR, SUB_ID, SUBSCRIPTION_KEYS

MAX_SUB_ID: Final = 2**63 - 1
# Generous: descriptors are written with blanks here, and their own limit holds without.
MAX_LINE_BYTES: Final = 4 * MAX_DESCRIPTOR_BYTES


@dataclass(frozen=True, slots=True)
class Subscription:
    """A neighborhood and its number in the whole system."""

    sub_id: int
    neighborhood: Neighborhood


def parse_subscription(line: str) -> Subscription:
    """The subscription, or an error that says what is wrong with the line."""
    entry = decoded(line, MAX_LINE_BYTES)
    if not isinstance(entry, dict) or sorted(entry) != sorted(SUBSCRIPTION_KEYS):
        keys = " and ".join(SUBSCRIPTION_KEYS)
        raise DescriptorError(f"the line is no subscription; allowed: an object with {keys}")
    twice = key_written_twice(entry)
    if twice is not None:
        raise DescriptorError(f"{twice} is written twice; allowed: each key once")
    sub_id = entry[SUB_ID]
    if type(sub_id) is not int or not 0 <= sub_id <= MAX_SUB_ID:
        raise DescriptorError(f"{SUB_ID} is {sub_id!r}; allowed: an integer 0 .. 2^63-1")
    if not isinstance(entry[DESCRIPTOR], dict):
        raise DescriptorError(f"{DESCRIPTOR} is no object; allowed: an object with refs and stages")
    return Subscription(sub_id, parse_descriptor(entry[DESCRIPTOR]))


def subscription_line(subscription: Subscription) -> str:
    """The line as it is written to a file, without the line end."""
    entry = {
        SUB_ID: subscription.sub_id,
        DESCRIPTOR: descriptor_object(subscription.neighborhood),
    }
    return json.dumps(entry, ensure_ascii=False)
