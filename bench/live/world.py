"""A synthetic city as a Delta world: ``python -m bench.live.world FOLDER ENTITIES``.

A process of its own, so that drawing the city leaves nothing in the memory that is measured.
"""

from __future__ import annotations

import sys

from testing.synthetic_city import synthetic_city
from testing.world_writers import entity_rows
from world.versions.store import WorldStore


def write_city(folder: str, entities: int) -> None:
    """Write the city as the first version of a new world."""
    table = synthetic_city(entities)
    WorldStore(folder).write_version(entity_rows(table), srid=table.srid)


if __name__ == "__main__":
    write_city(sys.argv[1], int(sys.argv[2]))
