"""The bulk engine for a rebuild, loaded when it is asked for: a small world needs no Java."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # at run time only where Spark is the engine
    from jobs.pipeline.rebuild_engine import SparkRebuild


def spark_engine(world: str, out: str, say: Callable[[str], None]) -> SparkRebuild:
    """Return Spark as the engine of a rebuild; its session starts with the first request."""
    from jobs.pipeline.rebuild_engine import SparkRebuild  # noqa: PLC0415 - as the docstring says

    return SparkRebuild(world, out, say)
