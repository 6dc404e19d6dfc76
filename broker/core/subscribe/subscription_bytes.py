"""What a subscription takes in memory: the figure that limits count."""

from __future__ import annotations

from sys import getsizeof
from typing import Final

from broker.codec.topics import SHARE_PREFIX
from broker.core.subscribe.topic_levels import LEVEL_BYTES

# A subscription, its terms, its filter's node and its places in dictionaries, as measured.
SUBSCRIPTION_BYTES: Final = 700
# A neighborhood's slot, numbers and place under its filter. Its members are counted elsewhere.
NEIGHBORHOOD_BYTES: Final = 700


def subscription_bytes(topic_filter: str, descriptor: str | None) -> int:
    """Return about what a subscription to this filter takes in memory, and rather more.

    The text of the filter is there as a whole and once more in its levels; that of a shared
    subscription also without its prefix. Levels that filters share are counted for each.
    """
    copies = 3 if topic_filter.startswith(SHARE_PREFIX) else 2
    size = SUBSCRIPTION_BYTES + copies * getsizeof(topic_filter)
    size += LEVEL_BYTES * (topic_filter.count("/") + 1)
    if descriptor is not None:
        size += NEIGHBORHOOD_BYTES + getsizeof(descriptor)
    return size
