"""What tests on the running broker share."""

from __future__ import annotations

from pathlib import Path

import pytest

from world.snapshot import entity_rows
from world.store import WorldStore
from world.synthetic_city import SRID, synthetic_city


@pytest.fixture(scope="session")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world of two versions: 600 entities, then 300 of another seed."""
    folder = tmp_path_factory.mktemp("city")
    store = WorldStore(str(folder))
    for entities, seed in ((600, 1), (300, 2)):
        store.write_version(entity_rows(synthetic_city(entities, seed)), srid=SRID)
    return folder
