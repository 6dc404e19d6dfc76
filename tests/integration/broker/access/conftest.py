"""A broker with a password file and rules for topics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenes.broker.guarded_broker import NO_WORLD, access_files
from tests.servers.running_broker import RunningBroker, running_broker


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker with users and rules, shared by tests that do not change them."""
    folder = tmp_path_factory.mktemp("guarded")
    with running_broker(folder, *NO_WORLD, "--http", "0", config=access_files(folder)) as broker:
        yield broker
