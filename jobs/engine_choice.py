"""Who resolves a rebuild: the exact resolver in some processes, or Spark."""

from __future__ import annotations

from typing import Final

from jobs.rebuild_request import Engine

# The exact resolver holds the whole version in each of its processes, about 1 kB an entity.
SPARK_FROM_ENTITIES: Final = 3_000_000
# Some thousand distinct neighborhoods a second and process: beyond this Spark has started and won.
SPARK_FROM_NEIGHBORHOODS: Final = 200_000


def chosen_engine(wanted: Engine, entities: int, neighborhoods: int | None) -> Engine:
    """The engine that was asked for, or the one that fits the sizes.

    ``neighborhoods`` is how many have to be resolved, None as long as that is not known.
    """
    if wanted is not Engine.AUTO:
        return wanted
    many = neighborhoods is not None and neighborhoods >= SPARK_FROM_NEIGHBORHOODS
    return Engine.SPARK if many or entities >= SPARK_FROM_ENTITIES else Engine.EXACT
