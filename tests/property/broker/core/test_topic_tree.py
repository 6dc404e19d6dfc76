"""Matching by trees against matching by definition."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.limits import BrokerLimits
from broker.core.message import Message
from broker.core.retained.retained_delivery import RetainedSearch
from broker.core.retained.retained_messages import MESSAGE_BYTES, RetainedStore
from broker.core.subscribe import topic_tree
from broker.core.subscribe.topic_tree import FEW_CHILDREN, LEVEL_BYTES, Level, TopicTree

NAMES = st.sampled_from(["a", "b", "", "$x", "$SYS"])
TOPICS = st.lists(NAMES, min_size=1, max_size=5).map("/".join).filter(bool)
FILTERS = (
    st.tuples(st.lists(NAMES | st.just("+"), max_size=4), st.booleans())
    .map(lambda parts: "/".join([*parts[0], *(["#"] if parts[1] else [])]))
    .filter(bool)
)


def defined(pattern: str, topic: str) -> bool:
    """The specification's words: levels in step, ``#`` for the rest, or for nothing."""
    if topic.startswith("$") and pattern[0] in "+#":
        return False
    wanted, levels = pattern.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted = wanted[:-1]
        levels = levels[: len(wanted)] if len(levels) >= len(wanted) else levels
    return len(wanted) == len(levels) and all(
        name in ("+", level) for name, level in zip(wanted, levels, strict=True)
    )


def test_the_definition_itself() -> None:
    yes = [("#", "a/b"), ("a/#", "a"), ("a/#", "a/b/c"), ("+/+", "/a"), ("/+", "/a"), ("+", "a")]
    yes += [("$SYS/#", "$SYS/a"), ("$SYS/+", "$SYS/a"), ("a/+/c", "a//c")]
    no = [("#", "$SYS/a"), ("+/a", "$SYS/a"), ("+", "a/b"), ("a", "a/b"), ("a/b", "a"), ("+", "/a")]
    assert all(defined(*pair) for pair in yes)
    assert not any(defined(*pair) for pair in no)


@given(st.lists(FILTERS, unique=True, max_size=25), st.lists(TOPICS, max_size=8), st.data())
def test_the_tree_of_filters(filters: list[str], topics: list[str], data: st.DataObject) -> None:
    tree = TopicTree()
    for one in filters:
        assert tree.entry_of(one) is tree.entry_of(one)
    removed = data.draw(st.lists(st.sampled_from(filters), unique=True)) if filters else []
    for one in removed:
        tree.remove(one)
    left = set(filters) - set(removed)
    assert len(tree) == len(left)
    for one in filters:
        assert (tree.find(one) is not None) == (one in left)
    for topic in topics:
        found = [entry.topic_filter for entry in tree.match(topic)]
        assert len(found) == len(set(found))
        assert set(found) == {one for one in left if defined(one, topic)}
    for one in left:
        tree.remove(one)
    assert tree._root.is_empty


def found_by(search: RetainedSearch, steps: int) -> list[str]:
    """The topics of what a search finds in so many steps."""
    levels, left = search.next_levels(steps)
    assert 0 <= left <= steps
    return [level.message.topic for level in levels if level.message is not None]


@given(st.lists(TOPICS, unique=True, max_size=25), st.lists(FILTERS, max_size=8), st.data())
def test_the_tree_of_retained_messages(
    topics: list[str], filters: list[str], data: st.DataObject
) -> None:
    store = RetainedStore(BrokerLimits())
    for topic in topics:
        store.put(Message(topic, b"old"))
        store.put(Message(topic, b"x" * 10))
    removed = data.draw(st.lists(st.sampled_from(topics), unique=True)) if topics else []
    for topic in removed:
        assert store.remove(topic)
        assert not store.remove(topic)
    left = set(topics) - set(removed)
    counted = [topic for topic in left if not topic.startswith("$SYS/")]
    assert store.count == len(counted)
    prefixes = {tuple(t.split("/")[:d]) for t in left for d in range(1, t.count("/") + 2)}
    messages = sum(Message(topic, b"x" * 10).size + MESSAGE_BYTES for topic in counted)
    assert store.bytes == messages + LEVEL_BYTES * len(prefixes)
    for pattern in filters:
        found = found_by(store.search(pattern, store.births), 1_000)
        assert len(found) == len(set(found))
        assert set(found) == {topic for topic in left if defined(pattern, topic)}
    assert {message.topic for message in store} == left


CHANGES = st.lists(st.tuples(st.sampled_from(["put", "remove"]), TOPICS), max_size=6)


@pytest.mark.parametrize("few", [0, 1, 4, FEW_CHILDREN])
@given(st.sets(TOPICS, max_size=25), FILTERS, st.lists(CHANGES, max_size=25), st.integers(1, 3))
def test_a_search_that_is_interrupted_by_changes(
    few: int, topics: set[str], pattern: str, changes: list[list[tuple[str, str]]], steps: int
) -> None:
    with patch.object(topic_tree, "FEW_CHILDREN", few):
        check_interrupted_search(topics, pattern, changes, steps)


def check_interrupted_search(
    topics: set[str], pattern: str, changes: list[list[tuple[str, str]]], steps: int
) -> None:
    store = RetainedStore(BrokerLimits())
    for topic in topics:
        store.put(Message(topic, b"x"))
    search = store.search(pattern, store.births)
    matching = {topic for topic in topics if defined(pattern, topic)}
    # Those that were there all the time.
    steady = set(matching)
    found = []
    for meanwhile in changes:
        found += found_by(search, steps)
        for what, topic in meanwhile:
            if what == "put":
                store.put(Message(topic, b"y"))
            else:
                store.remove(topic)
                steady.discard(topic)
    found += found_by(search, 1_000)
    assert search.depth == 0
    assert len(found) == len(set(found))
    assert steady <= set(found) <= matching


def test_what_does_not_match_is_never_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the levels that are visited: the same with ten filters as with ten thousand."""
    child = Level.child
    for others in (10, 10_000):
        tree = TopicTree()
        tree.entry_of("a/+/c")
        for number in range(others):
            tree.entry_of(f"x{number}/+/#")
            tree.entry_of(f"a/{number}/d")
        visited = 0

        def counting(level: Level, name: str) -> Level | None:
            nonlocal visited
            visited += 1
            return child(level, name)

        monkeypatch.setattr(Level, "child", counting)
        assert [entry.topic_filter for entry in tree.match("a/5/c")] == ["a/+/c"]
        assert visited == 8
        monkeypatch.undo()
