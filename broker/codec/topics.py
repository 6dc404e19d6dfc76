"""Topic names and topic filters: what is well formed, and what a shared subscription means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.codec.reason_codes import ProtocolError, ReasonCode, violation

SHARE_PREFIX: Final = "$share/"
SYSTEM_PREFIX: Final = "$SYS/"


class FilterError(ValueError):
    """A topic filter that cannot be subscribed to; the text says why."""


@dataclass(frozen=True, slots=True)
class ParsedFilter:
    """A filter taken apart: the share name is None for a subscription of one's own."""

    topic_filter: str
    share_name: str | None = None


def check_topic_name(topic: str) -> None:
    """Refuse what no PUBLISH may carry: an empty topic or a wildcard."""
    if not topic:
        raise violation("the topic is empty and no alias stands for it")
    if "+" in topic or "#" in topic:
        raise ProtocolError(ReasonCode.TOPIC_NAME_INVALID, "the topic holds a wildcard")


def parse_filter(text: str, max_levels: int) -> ParsedFilter:
    """The filter of a SUBSCRIBE; FilterError when it is not one."""
    parsed = _split_share(text)
    _check_filter(parsed.topic_filter, max_levels)
    return parsed


def _split_share(text: str) -> ParsedFilter:
    if not text.startswith(SHARE_PREFIX):
        return ParsedFilter(text)
    share_name, slash, topic_filter = text[len(SHARE_PREFIX) :].partition("/")
    if not share_name or not slash or "+" in share_name or "#" in share_name:
        raise FilterError("a shared subscription is written $share/name/filter")
    return ParsedFilter(topic_filter, share_name)


def _check_filter(topic_filter: str, max_levels: int) -> None:
    if not topic_filter:
        raise FilterError("the filter is empty")
    if topic_filter.count("/") >= max_levels:
        raise FilterError(f"the filter has more than {max_levels} levels")
    if "#" in topic_filter or "+" in topic_filter:
        levels = topic_filter.split("/")
        for number, level in enumerate(levels, start=1):
            if "#" in level and (level != "#" or number < len(levels)):
                raise FilterError("# must be the last level, alone")
            if "+" in level and level != "+":
                raise FilterError("+ must stand alone in its level")
