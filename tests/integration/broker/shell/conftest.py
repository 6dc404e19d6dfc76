"""A broker that everyone may use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenes.broker.open_broker import OPEN
from tests.servers.running_broker import RunningBroker, running_broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("hazards"), *OPEN) as running:
        yield running
