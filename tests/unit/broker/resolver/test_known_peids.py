"""Whether a world version has an entity, from its peids in parts."""

from __future__ import annotations

import numpy as np
import pytest

from broker.resolver import known_peids
from broker.resolver.known_peids import KnownPeids, peid_parts

LARGEST = 2**63 - 1


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_exactly_the_peids_of_the_world_are_known(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(known_peids, "PEIDS_AT_ONCE", at_once)
    peids = np.array([0, 3, 4, 7, 4_000_000_000, LARGEST], np.int64)
    parts = list(peid_parts(peids))
    assert all(0 < len(part) <= at_once for part in parts)
    known = KnownPeids(parts)
    assert len(known) == len(peids)
    asked = {*range(10), 4_000_000_000, 4_000_000_001, LARGEST - 1, LARGEST}
    assert {peid for peid in asked if peid in known} == set(peids.tolist())


def test_a_world_without_entities() -> None:
    known = KnownPeids(list(peid_parts(np.empty(0, np.int64))))
    assert (len(known), 0 in known) == (0, False)
