"""A pattern covers a filter exactly when it holds every topic that the filter can match."""

from __future__ import annotations

import itertools

from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.access.topic_rules import covers

LEVELS = ("a", "b", "$c", "")
# Every topic of up to four levels: one level more than the filters below have.
TOPICS = [levels for size in range(1, 5) for levels in itertools.product(LEVELS, repeat=size)]


def matches(topic_filter: tuple[str, ...], topic: tuple[str, ...]) -> bool:
    """MQTT's own definition, written as plainly as can be."""
    if topic[0].startswith("$") and topic_filter[0] in ("+", "#"):
        return False
    if topic_filter[-1] == "#":
        before = topic_filter[:-1]
        return len(topic) >= len(before) and matches_levels(before, topic[: len(before)])
    return len(topic) == len(topic_filter) and matches_levels(topic_filter, topic)


def matches_levels(pattern: tuple[str, ...], topic: tuple[str, ...]) -> bool:
    return all(wanted in ("+", level) for wanted, level in zip(pattern, topic, strict=True))


filters = st.tuples(
    st.lists(st.sampled_from(("a", "$c", "+", "")), max_size=3), st.booleans()
).map(lambda drawn: (*drawn[0], "#") if drawn[1] else tuple(drawn[0])).filter(bool)  # fmt: skip


@settings(max_examples=500)
@example(pattern=("+", "#"), wanted=("#",))
@given(pattern=filters, wanted=filters)
def test_covering_is_holding_every_topic(pattern: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    held = all(matches(pattern, topic) for topic in TOPICS if matches(wanted, topic))
    # The one filter that is asked to be written like its rule, although they mean the same.
    if (pattern, wanted) == (("+", "#"), ("#",)):
        held = False
    assert covers(pattern, wanted) == held


@given(pattern=filters, topic=st.sampled_from(TOPICS))
def test_covering_a_topic_is_matching_it(pattern: tuple[str, ...], topic: tuple[str, ...]) -> None:
    assert covers(pattern, topic) == matches(pattern, topic)
