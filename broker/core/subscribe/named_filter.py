"""Topic filters that name a neighborhood: ``$neighborhood/NAME/filter``.

Clients without user properties subscribe to a named neighborhood so. A shared subscription is
written ``$share/group/$neighborhood/NAME/filter``. Messages are matched with ``filter`` alone, and
access control judges that.
"""

from __future__ import annotations

from typing import Final

from broker.codec.fields import SHARE_PREFIX, FilterError, ParsedFilter, parse_filter
from schemas.named_neighborhood import NAME_FORM, NAME_PREFIX, is_name

# Levels in front of the filter that messages are matched with.
_NAME_LEVELS: Final = 2


def names_neighborhood(text: str) -> bool:
    """Return whether a filter, as the client wrote it, names a neighborhood."""
    if text.startswith(SHARE_PREFIX):
        text = text[len(SHARE_PREFIX) :].partition("/")[2]
    return text.startswith(NAME_PREFIX)


def parse_subscription(text: str, max_levels: int) -> tuple[ParsedFilter, str | None]:
    """Return the filter to match messages with, and the name of its neighborhood, if any."""
    if not names_neighborhood(text):
        return parse_filter(text, max_levels), None
    parsed = parse_filter(text, max_levels + _NAME_LEVELS)
    name, _, inner = parsed.topic_filter[len(NAME_PREFIX) :].partition("/")
    if not is_name(name) or not inner:
        raise FilterError(
            f"a named neighborhood is subscribed to as {NAME_PREFIX}NAME/filter; NAME: {NAME_FORM}"
        )
    if inner.startswith((SHARE_PREFIX, NAME_PREFIX)):
        raise FilterError(
            f"a shared subscription to a named neighborhood is written "
            f"{SHARE_PREFIX}group/{NAME_PREFIX}NAME/filter"
        )
    return ParsedFilter(inner, parsed.share_name), name


def matched_filter(text: str) -> str:
    """Return the filter that messages are matched with, of a valid one as the client wrote it."""
    return parse_subscription(text, text.count("/") + 1)[0].topic_filter
