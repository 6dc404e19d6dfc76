"""Who resolves a rebuild: the exact resolver in some processes, or Spark."""

from __future__ import annotations

from typing import Final

from rebuild.request import Engine

# The exact resolver holds the whole version in each of its processes, about 1 kB an entity.
SPARK_FROM_ENTITIES: Final = 3_000_000
# Some thousand distinct neighborhoods a second and process: beyond this Spark has started and won.
SPARK_FROM_NEIGHBORHOODS: Final = 200_000
# To see what a change can affect, the version is held once, by whichever process leads.
MOST_ENTITIES_IN_MEMORY: Final = 10_000_000
# Where more than this share is to be resolved, Spark takes all and writes them out by itself.
MOST_IN_PART: Final = 0.5


def engine_for_all(wanted: Engine, entities: int, neighborhoods: int) -> Engine:
    """Who resolves everything: the engine that was asked for, or the one that fits the sizes."""
    if wanted is not Engine.AUTO:
        return wanted
    large = entities >= SPARK_FROM_ENTITIES or neighborhoods >= SPARK_FROM_NEIGHBORHOODS
    return Engine.SPARK if large else Engine.EXACT


def engine_for_some(wanted: Engine, neighborhoods: int) -> Engine:
    """Who resolves what a change can affect; the version is in memory by then."""
    if wanted is not Engine.AUTO:
        return wanted
    return Engine.SPARK if neighborhoods >= SPARK_FROM_NEIGHBORHOODS else Engine.EXACT
