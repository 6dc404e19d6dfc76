"""Parts of subscriptions: told apart by number, cut for an exchange, brought together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spatial_udfs.batch.subscription_parts import (
    BadRow,
    SubscriptionPart,
    by_number,
    by_text,
    each_once,
    facts_of,
    may_share_numbers,
    merged,
    part_of_texts,
)


def text_of(part: SubscriptionPart) -> dict[int, str]:
    numbers, texts = part.sub_ids.tolist(), part.texts.take(pa.array(part.text_of)).to_pylist()
    assert len(set(numbers)) == len(numbers)
    return dict(zip(numbers, texts, strict=True))


def a_part(numbers: list[int], texts: list[str], places: list[int]) -> SubscriptionPart:
    return part_of_texts(
        np.array(numbers, np.int64), pa.array(texts, pa.string()), np.array(places, np.int64)
    )


def test_the_first_of_two_counts_by_place_or_by_text() -> None:
    part = a_part([5, 3, 5, 4], ["b", "c", "a", "a"], [30, 20, 10, 40])
    by_place = each_once(part, by_text=False)
    assert text_of(by_place) == {5: "a", 3: "c", 4: "a"}
    assert by_place.bad == [BadRow(30, 5, "subId 5 came before")]
    part = a_part([5, 5, 5], ["b", "a", "b"], [1, 2, 3])
    by_its_text = each_once(part, by_text=True)
    assert text_of(by_its_text) == {5: "a"}
    assert len(by_its_text.bad) == 2


def test_parts_that_overlap_may_share_numbers() -> None:
    def spans(*numbers: tuple[int, ...]) -> bool:
        return may_share_numbers(
            facts_of(a_part(list(of), ["a"] * len(of), list(of))) for of in numbers
        )

    assert not spans((1, 2), (), (3, 9))
    assert not spans((3, 9), (1, 2))
    assert spans((1, 3), (3, 9))
    assert spans((1, 9), (3, 4))


def test_equal_subscriptions_have_equal_digests() -> None:
    part = a_part([5, 3, 4], ["b", "c", "a"], [1, 2, 3])
    backwards = a_part([4, 3, 5], ["a", "c", "b"], [7, 8, 9])
    exchanged = a_part([5, 3, 4], ["c", "b", "a"], [1, 2, 3])
    digests = [facts_of(each).digest for each in (part, backwards, exchanged)]
    assert digests[0] == digests[1] != digests[2]
    halves = [a_part([5], ["b"], [1]), a_part([3, 4], ["c", "a"], [2, 3])]
    assert sum(facts_of(each).digest for each in halves) % 2**64 == digests[0]


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.sampled_from("abcü"))), st.integers(1, 5))
def test_an_exchange_loses_nothing_and_brings_together(
    rows: list[tuple[int, str]], count: int
) -> None:
    half = len(rows) // 2
    parts = [
        a_part([n for n, _ in some], [t for _, t in some], list(range(first, first + len(some))))
        for first, some in ((0, rows[:half]), (half, rows[half:]))
    ]
    wrong = [BadRow(1, None, "why")]
    parts[0] = parts[0]._replace(bad=wrong)
    for cut, key in ((by_number, 0), (by_text, 1)):
        pieces: dict[int, list[SubscriptionPart]] = {}
        for owner, piece in (sent for part in parts for sent in cut(part, count)):
            assert 0 <= owner < count
            pieces.setdefault(owner, []).append(piece)
        found = [merged(each) for each in pieces.values()]
        told = [
            (number, each.texts[of].as_py(), place, owner)
            for owner, each in enumerate(found)
            for number, of, place in zip(each.sub_ids, each.text_of, each.places, strict=True)
        ]
        assert sorted(row[:3] for row in told) == sorted(
            (*row, place) for place, row in enumerate(rows)
        )
        assert len({(row[key], row[3]) for row in told}) == len({row[key] for row in rows})
        assert [row for each in found for row in each.bad] == wrong
