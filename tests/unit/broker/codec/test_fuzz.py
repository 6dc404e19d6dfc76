"""A short run of the fuzzer that ``make bench-fuzz`` runs a million inputs of."""

from __future__ import annotations

import pytest

from broker.codec import publish
from tests.broker_core import encode
from tests.broker_core.fuzzing import Fuzzer
from tests.broker_core.harness import Harness

INPUTS = 4_000


def test_nothing_is_raised_for_mutated_input() -> None:
    fuzzer = Fuzzer(seed=7)
    try:
        fuzzer.run(INPUTS)
    except Exception as error:
        raise AssertionError(f"input {fuzzer.counts.inputs}: {fuzzer.last!r}") from error
    counts = fuzzer.counts
    assert counts.inputs == INPUTS
    # Every kind of end must be met often, or the inputs are worth little.
    assert min(counts.closed, counts.alive) > INPUTS // 10
    assert min(counts.resolved, counts.refused) > INPUTS // 100


def test_a_defect_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # The negative control: a reader without its check for the end of the packet.
    def careless(data: bytes, position: int, _end: int) -> int:
        return position + 2 + (data[position] << 8 | data[position + 1])

    monkeypatch.setattr(publish, "field_end", careless)
    with pytest.raises(IndexError):
        Fuzzer(seed=7).run(INPUTS)


def test_a_seed_gives_the_same_run() -> None:
    first, second = Fuzzer(seed=3), Fuzzer(seed=3)
    first.run(200)
    second.run(200)
    assert (first.counts, first.last) == (second.counts, second.last)


def test_a_peid_property_that_ends_with_its_name_is_an_error_of_the_client() -> None:
    # Found by the fuzzer: the fast path looked for the value beyond the end of the data.
    harness = Harness()
    client, other = harness.connect("c"), harness.connect("d")
    other.subscribe("t")
    client.send(encode.publish("t"))
    client.send(encode.packet(0x30, encode.text("t") + b"\x08" + encode.user("peid", "1")[:8]))
    assert client.is_closed
    assert not other.is_closed
