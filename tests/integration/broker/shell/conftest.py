"""A broker that everyone may use, and MQTT.js."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenes.broker.open_broker import OPEN
from tests.servers.npm_packages import require_mqtt_js
from tests.servers.running_broker import RunningBroker, running_broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("hazards"), *OPEN) as running:
        yield running


@pytest.fixture(scope="session")
def mqtt_js(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with MQTT.js and a client of it."""
    folder = tmp_path_factory.mktemp("mqtt.js")
    (folder / "node_modules").symlink_to(require_mqtt_js())
    return folder
