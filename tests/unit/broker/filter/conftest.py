"""A broker core with memberships, and a client of it."""

from __future__ import annotations

import pytest

from tests.broker_core.harness import Client, Harness


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.neighborhoods = {"near": [1, 2, 3], "far": [3, 4], "none": [], "bad": "stage 1: no"}
    return harness


@pytest.fixture
def client(harness: Harness) -> Client:
    return harness.connect("c")
