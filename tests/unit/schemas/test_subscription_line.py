"""One line of a subscription file: read strictly, written back the same."""

from __future__ import annotations

import pytest

from schemas.errors import DescriptorError, SpapsError
from schemas.language.notation import read_neighborhood
from schemas.subscription import Subscription, parse_subscription
from tests.scenes.subscription_files import subscription_line

DESCRIPTOR = '{"refs": [1], "stages": [{"cats": ["#"], "cond": "C"}]}'


def test_a_line_written_and_read_is_the_same_subscription() -> None:
    neighborhood = read_neighborhood("({4711},{road/à 30},C) • 3(Prev,{road/#},T) visible 0001")
    subscription = Subscription(2**63 - 1, neighborhood)
    line = subscription_line(subscription)
    assert "\n" not in line
    assert parse_subscription(line) == subscription


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "not JSON: at character 1"),
        ("[]", "no subscription; allowed: an object with subId and descriptor"),
        ('{"subId": 1}', "an object with subId and descriptor"),
        (f'{{"subId": 1, "descriptor": {DESCRIPTOR}, "x": 1}}', "with subId and descriptor"),
        (f'{{"subId": true, "descriptor": {DESCRIPTOR}}}', "subId is true"),
        (f'{{"subId": -1, "descriptor": {DESCRIPTOR}}}', "subId is -1"),
        (f'{{"subId": {2**63}, "descriptor": {DESCRIPTOR}}}', "an integer 0 .. 2\\^63-1"),
        (f'{{"subId": "-1", "descriptor": {DESCRIPTOR}}}', "subId is '-1'"),
        (f'{{"subId": "one", "descriptor": {DESCRIPTOR}}}', "subId is 'one'"),
        (f'{{"subId": "{2**63}", "descriptor": {DESCRIPTOR}}}', "an integer 0 .. 2\\^63-1"),
        ('{"subId": 1, "descriptor": "({1},{#},C)"}', "descriptor is no object"),
        (f'{{"subId": 1, "subId": 2, "descriptor": {DESCRIPTOR}}}', "subId is written twice"),
        ('{"subId": 1, "descriptor": {"refs": [1], "refs": [2]}}', "refs is written twice"),
        ('{"subId": 1, "descriptor": {"refs": [1]}}', "stages is missing"),
        (f'{{"subId": {"9" * 5000}, "descriptor": {DESCRIPTOR}}}', "an integer 0 .. 2\\^63-1"),
        ("[" * 100_000, "nested too deeply"),
        ("[" * 1_000_000, "at most 262140"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line: str, message: str) -> None:
    with pytest.raises(DescriptorError, match=message):
        parse_subscription(line)


@pytest.mark.parametrize("written", ["7", '"7"', '"007"'])
def test_a_number_may_be_a_decimal_text_as_javascript_needs_it(written: str) -> None:
    line = f'{{"subId": {written}, "descriptor": {DESCRIPTOR}}}'
    assert parse_subscription(line).sub_id == 7


def test_a_condition_that_does_not_parse_is_our_own_error_too() -> None:
    line = '{"subId": 1, "descriptor": {"refs": [1], "stages": [{"cats": ["#"], "cond": "Q"}]}}'
    with pytest.raises(SpapsError, match="stage 1"):
        parse_subscription(line)
