"""The bounded memory of results."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.resolver.resolver_requests import ByteCache


def test_the_least_recently_used_go_first() -> None:
    cache: ByteCache[str] = ByteCache(max_bytes=30)
    for key in "abc":
        cache.put(key, key.upper(), size=9)
    assert cache.get("a") == "A"
    cache.put("d", "D", size=9)
    assert [cache.get(key) for key in "abcd"] == ["A", None, "C", "D"]


def test_what_is_larger_than_all_room_is_not_kept_and_replaces_nothing_else() -> None:
    cache: ByteCache[str] = ByteCache(max_bytes=30)
    cache.put("a", "A", size=9)
    cache.put("b", "B", size=30)
    assert (cache.get("a"), cache.get("b"), len(cache)) == ("A", None, 1)
    cache.put("a", "larger", size=30)
    assert (cache.get("a"), cache.used_bytes) == (None, 0)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 40))))
def test_the_bound_holds_and_the_count_is_right(puts: list[tuple[str, int]]) -> None:
    cache: ByteCache[int] = ByteCache(max_bytes=50)
    last: dict[str, int] = {}
    for key, size in puts:
        cache.put(key, size, size)
        last[key] = size
        kept = {key: value for key in last if (value := cache.get(key)) is not None}
        assert cache.used_bytes == sum(value + 1 for value in kept.values()) <= 50
        assert all(last[key] == value for key, value in kept.items())
    cache.clear()
    assert (len(cache), cache.used_bytes) == (0, 0)
